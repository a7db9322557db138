"""`claims check`: list claims that wait for a blind check, and accept reviewed blind checks.

A blind check is a check written by somebody who saw only the sentence of the claim.
"""

import dataclasses
import re
from collections.abc import Collection
from pathlib import Path

from sphinx_claims._config import Config, read_config
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.kinds import BLIND
from sphinx_claims._judging.pages import read_pages
from sphinx_claims._judging.prover import prove
from sphinx_claims._judging.report import red_lines


def check(identifiers: Collection[str]) -> bool:
    """Accept the blind checks of the given claims if they pass. Return whether they did.

    A blind check is written by somebody who saw only the sentence of the claim. Without ids, print
    the claims that wait for a blind check, and return whether there are none.
    """
    config = dataclasses.replace(read_config(Path()), docstrings=(), versions=None)
    found = {
        claim.id: (claim, f"{page.path}:{claim.line}", digest(page, claim))
        for page in read_pages(config.files(), config)
        for claim in page.claims
    }
    if unknown := set(identifiers) - found.keys():
        raise ValueError(f"no page has the claim {min(unknown)}")
    if identifiers:
        return _accept({one: found[one][2] for one in identifiers}, config)
    waiting = [
        (claim, place)
        for claim, place, current in found.values()
        if (claim.kind in BLIND or claim.digests) and current not in claim.digests
    ]
    for claim, place in waiting:
        print(f"{place}: {claim.id} ({' '.join((str(claim.kind), *claim.scope))})")
        print(f"    {claim.statement}")
    print(f"{len(waiting)} of {len(found)} claims wait for a blind check")
    return not waiting


def _accept(digests: dict[str, str], config: Config) -> bool:
    """Run the pages with the blind checks (see `Cell`) of some claims, and write their digests.

    If a page has problems, print them instead. Return whether there were none. `digests` maps the
    id of each claim to its current digest, which is written to the option `:checks:` of its cells.
    """
    cell = re.compile(rf"^(:checks: +({'|'.join(map(re.escape, digests))})) .*", re.MULTILINE)
    texts = {file: file.read_text(encoding="utf-8") for file in config.files()}
    held = {file: text for file, text in texts.items() if cell.search(text)}
    red = [*red_lines(prove(config, [*held], report=lambda _: None))]
    for line in red:
        print(line)
    for file, text in held.items() if not red else ():
        kept = cell.sub(lambda found: f"{found[1]} {digests[found[2]]}", text)
        file.write_text(kept, encoding="utf-8")
    return not red
