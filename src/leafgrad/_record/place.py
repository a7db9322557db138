"""The line of user code that is running, stored as a code object until it is needed."""

import os
from itertools import islice
from pathlib import PurePath
from types import CodeType, FrameType

import torch
from torch.autograd.function import FunctionCtx

from leafgrad import _autograd
from leafgrad._graph.code_files import is_installed
from leafgrad._graph.nodes import Source

Place = tuple[CodeType, int, "Place | None"]
"""A code object, the index of the running instruction, and the place in an installed package that
it called, if any."""

_LIBRARIES = tuple(
    f"{folder}{os.sep}"
    for folder in (PurePath(torch.__file__).parent, PurePath(__file__).parents[1])
)


class _LibraryFiles(dict[str, bool]):
    """A cache that maps a file name to whether the file belongs to PyTorch or leafgrad."""

    def __missing__(self, file: str) -> bool:
        return self.setdefault(file, file.startswith(_LIBRARIES))


is_library_file = _LibraryFiles()


class _InstalledFiles(dict[str, bool]):
    """A cache that maps a file name to whether it belongs to any installed package."""

    def __missing__(self, file: str) -> bool:
        return self.setdefault(file, is_library_file[file] or is_installed(file))


_is_installed_file = _InstalledFiles()


def place_of(frame: FrameType | None) -> Place | None:
    """Return the innermost place in user code on the call stack of a frame.

    Without user code, it is the innermost place outside PyTorch and leafgrad. Return None if there
    is no frame outside them.
    """
    library: Place | None = None
    while frame is not None:
        code = frame.f_code
        if not _is_installed_file[code.co_filename]:
            return code, frame.f_lasti, library
        if library is None and not is_library_file[code.co_filename]:
            library = code, frame.f_lasti, None
        frame = frame.f_back
    return library


def part_of(frame: FrameType | None) -> tuple[str | None, Place | None]:
    """Return the running optimizer step or `load_state_dict`, and the user line that called it.

    In other code, including a closure called by an optimizer, return None and `place_of(frame)`.
    """
    # A function outside PyTorch that is called `step` may belong to the user's own optimizer class.
    # Any other one, such as a closure, is user code that the optimizer calls.
    innermost, last = frame, "step"
    while frame is not None:
        name = frame.f_code.co_name
        if not is_library_file[frame.f_code.co_filename]:
            last = name
        elif last != "step":
            break
        elif name == "load_state_dict":
            return name, place_of(frame)
        elif (optimizer := _autograd.stepping_optimizer(frame)) is not None:
            return f"{optimizer}.step", place_of(frame)
        frame = frame.f_back
    return None, place_of(innermost)


def switch_of(frame: FrameType | None) -> tuple[str | None, bool]:
    """Return the call that disables gradients, and whether a block ends here.

    `frame` is the innermost Python frame. The call is None if PyTorch itself disables gradients, as
    in ``sample()``.
    """
    switch: str | None = "set_grad_enabled(False)"
    is_end = False
    while frame is not None and is_library_file[file := frame.f_code.co_filename]:
        if _autograd.is_grad_mode(file):
            name = frame.f_code.co_qualname
            is_end = is_end or name.endswith(".__exit__")
            switch = "no_grad()" if switch and name.startswith("no_grad.") else switch
        elif not file.startswith(_LIBRARIES[1]):
            switch = None
        frame = frame.f_back
    return switch, is_end


def source_at(place: Place | None) -> Source | None:
    """Return the file, line and function of a place in the code; None if there is no place."""
    if place is None:
        return None
    code, instruction, library = place
    positions = islice(code.co_positions(), instruction // 2, None)
    line, end_line, column, end_column = next(positions, (None, None, None, None))
    called = source_at(library)
    return Source(
        file=code.co_filename,
        line=line or code.co_firstlineno,
        function=code.co_qualname,
        library=None if called is None else str(called),
        column=column,
        end_line=end_line,
        end_column=end_column,
    )


def custom_function_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the innermost running `torch.autograd.Function`; None if none runs."""
    while frame is not None:
        code = frame.f_code
        first = code.co_varnames[0] if code.co_name == "forward" and code.co_argcount else None
        if code is _APPLY or isinstance(first and frame.f_locals[first], FunctionCtx):
            return frame
        frame = frame.f_back
    return None


_APPLY = getattr(getattr(torch.autograd.Function.apply, "__func__", None), "__code__", None)
