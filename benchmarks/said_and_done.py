"""What is said of gradients beside what backward then does: random programs, cuts and models.

Usage: ``python -m benchmarks.said_and_done [PROGRAMS]``; it prints counts, and every mismatch.
"""

import sys
from collections.abc import Callable

from tests.models_compared import compared_models
from tests.programs import Count, planted_cut, random_program

PROGRAMS = 3_000


def total(title: str, run: Callable[[int], Count], seeds: range) -> int:
    """Add up many programs, and print the sum."""
    found = Count()
    for seed in seeds:
        found.add(run(seed))
    return said(title, found)


def said(title: str, found: Count) -> int:
    """Print the counts; give that of the mismatches."""
    print(
        f"{title}: {found.programs} programs, {found.tensors} answers, of which {found.unseen} say "
        f"that it cannot be seen, {found.culprits} culprits, {len(found.mismatches)} mismatches"
    )
    for mismatch in found.mismatches:
        print(f"  {mismatch}")
    return len(found.mismatches)


def main() -> int:
    """Run all; the exit status says whether anything disagreed."""
    seeds = range(int(sys.argv[1]) if sys.argv[1:] else PROGRAMS)
    mismatches = total("random programs", random_program, seeds)
    mismatches += total("planted cuts", planted_cut, seeds)
    mismatches += said("models", compared_models())
    return int(bool(mismatches))


if __name__ == "__main__":
    sys.exit(main())
