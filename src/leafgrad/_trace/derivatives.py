"""Name the derivatives that recorded passes with ``create_graph=True`` computed, as in ``u_xx``."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from leafgrad._record.log import Log
from leafgrad._record.tape import Value, find_call


def name_derivatives(
    log: Log, names: Mapping[int | None, str], values: Mapping[Value | None, str]
) -> dict[int | None, str]:
    """Return the name of the derivative that each recorded pass computed.

    The keys are the sequence numbers of the first nodes of the passes. A derivative is called by
    the names of its results; if they have none, its name is composed of those of the differentiated
    tensors.

    Args:
        log: What a recording saw.
        names: The names of tensors, by the numbers of their nodes.
        values: The names of tensors on the tape.
    """
    results = defaultdict[int | None, list[str]](list)
    for number, name in names.items():
        results[pass_at(log, number)].append(name)
    sums: dict[int | None, Value] = {}
    makers: dict[Value | None, int | None] = {}
    for call in log.tape.calls:
        if call.stop > call.start:  # the number of a call without nodes belongs to a later call
            makers.update(dict.fromkeys(call.outputs, call.start))
            if call.name == "sum":
                sums[call.start] = call.inputs[0]
    found: dict[int | None, str] = {}
    single: dict[int | None, str] = {}  # It leaves out passes that computed several derivatives.
    for call in log.spans:
        if call.roots is None:
            continue
        root = next(iter(call.roots), None)
        summed = sums.get(root)  # `grad(u.sum(), x)` differentiates u
        maker = makers.get(summed, root)
        base = names.get(root) or values.get(summed) or single.get(pass_at(log, maker))
        module = None if maker is None else log.module_of(maker)
        base = base or ("" if module is None else log.outermost[module.outermost].kind)
        inputs = [values[one] for one in call.inputs if values.get(one, base) != base]
        found[call.start] = ", ".join(results[call.start]) or _derived(base, inputs)
        if len(inputs) <= 1:
            single[call.start] = found[call.start]
    return found


def pass_at(log: Log, number: int | None) -> int | None:
    """Return the sequence number of the first node of the pass that created a node, or None."""
    call = None if number is None else find_call(log.tape.calls, number)
    return None if call is None or call.roots is None else call.start


def _derived(base: str, inputs: Sequence[str]) -> str:
    """Return the name of the derivative of `base` with respect to `inputs`.

    It is ``u_x`` for u and x, ``u_xx`` for u_x and x, and ``∇u`` for several inputs.
    """
    if len(inputs) != 1 or not base:
        return f"∇{base}"
    return base + inputs[0] if "_" in base else f"{base}_{inputs[0]}"
