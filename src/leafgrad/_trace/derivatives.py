"""Name what a recorded pass with ``create_graph=True`` computed, as in ``u_xx``."""

from collections.abc import Mapping, Sequence

from leafgrad._record.log import Log
from leafgrad._record.spans import find_span
from leafgrad._record.tape import Value


def name_derivatives(
    log: Log, names: Mapping[int | None, str], values: Mapping[Value | None, str]
) -> dict[int | None, str]:
    """Return the name of what each pass computed, by the number of the first node of the pass.

    A derivative has the name of its result, else it is named after what was differentiated.

    Args:
        log: What a recording saw.
        names: The names of tensors, by the numbers of their nodes.
        values: The names of tensors on the tape.
    """
    results = {pass_at(log, number): name for number, name in names.items()}
    sums: dict[int | None, Value] = {}
    makers: dict[Value | None, int | None] = {}
    for call in log.tape.calls:
        if call.stop > call.start:  # else the number is that of a later call
            makers.update(dict.fromkeys(call.outputs, call.start))
            if call.name == "sum":
                sums[call.start] = call.inputs[0]
    found: dict[int | None, str] = {}
    for call in log.spans:
        if call.roots is None:
            continue
        root = next(iter(call.roots), None)
        summed = sums.get(root)  # as in `grad(u.sum(), x)`, which differentiates u
        maker = makers.get(summed, root)
        base = names.get(root) or values.get(summed) or found.get(pass_at(log, maker))
        module = None if maker is None else log.module_of(maker)
        base = base or ("" if module is None else log.outermost[module.outermost].kind)
        inputs = [values[one] for one in call.inputs if values.get(one, base) != base]
        found[call.start] = results.get(call.start) or _derived(base, inputs)
    return found


def pass_at(log: Log, number: int | None) -> int | None:
    """Return the number of the first node of the pass that made a node, None outside of all."""
    call = None if number is None else find_span(log.tape.calls, number)
    return None if call is None or call.roots is None else call.start


def _derived(base: str, inputs: Sequence[str]) -> str:
    """Return ``u_x`` for u and x, ``u_xx`` for u_x and x, and a gradient of several inputs."""
    if len(inputs) != 1 or not base:
        return f"∇{base}"
    return base + inputs[0] if "_" in base else f"{base}_{inputs[0]}"
