"""How many words a chapter may show, and what counts as one."""

from pathlib import Path

import pytest

from tests.site.test_routes import INDEX, PAGES, Site

pytestmark = pytest.mark.covered_elsewhere

HEADS = len("Chapter b & more A heading".split())
UNSEEN = """
```{container} fold
Folded words.
```

```
code
```

| a | b |
|---|---|
| c | d |
"""


def chapter(name: str, count: int) -> str:
    return f"{PAGES[name]}\n{'word ' * (count - HEADS)}\n{UNSEEN}"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_short_chapter_may_fold_what_is_longer(site: Site) -> None:
    site(INDEX, a=chapter("a", 600), c=chapter("c", 900))
    assert site.warnings == []


def test_a_long_chapter_is_told(site: Site) -> None:
    site(INDEX, a=chapter("a", 601), c=chapter("c", 901))
    told = "WARNING: a chapter here must have at most {} words in sight, not {}"
    assert site.warnings == [f"a.md: {told.format(600, 601)}", f"c.md: {told.format(900, 901)}"]
