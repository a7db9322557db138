"""The scope of the claims of the site."""

from pathlib import Path

from tests.proving import read_config, read_pages, read_scope
from tests.site.test_zoo import ZOO

CONFIG = read_config(Path(__file__).parents[2])


def test_at_most_a_tenth_of_the_claims_exclude_more_than_the_default_scope() -> None:
    claims = [claim for page in read_pages(CONFIG.files(), CONFIG) for claim in page.claims]
    narrowed = [claim.id for claim in claims if any(word[0] == "-" for word in claim.scope)]
    assert 10 * len(narrowed) <= len(claims), narrowed


def test_scope_has_ten_exclusions_and_every_tag_of_the_zoo() -> None:
    scope = read_scope(CONFIG)
    assert len(scope.outside) == 10
    assert {tag for *_, tags in ZOO["MEMBERS"] for tag in tags} <= scope.outside | scope.inside
