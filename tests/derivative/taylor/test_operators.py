"""Whatever PyTorch's operators compute, the two methods never give different derivatives."""

from collections import Counter

import pytest
from operators import sweep, worst

from tests.trace.operators.operators import quiet_table


@pytest.mark.sweep
def test_no_operator_has_other_derivatives_in_taylor_mode_than_in_reverse_mode() -> None:
    with quiet_table():
        found = dict(sweep(samples=2))
    assert [name for name, outcomes in found.items() if outcomes["differs"]] == []
    counts = Counter(map(worst, found.values()))
    assert counts["rule"] + counts["rule alone"] > 240
    assert len(found) > 500
