"""What earlier runs on other versions found; it counts for claims that have not changed since."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from packaging.version import Version

from sphinx_claims._config import Config
from sphinx_claims._judging.matrix import Run, read_run
from sphinx_claims._judging.verdict import ClaimVerdict
from sphinx_claims._page import Problem
from sphinx_claims._versions import Release, broken_bound


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """The files of earlier runs: for each a run, or what is wrong with it."""

    config: Config
    files: Mapping[str, Run | Problem]

    @property
    def runs(self) -> list[Run]:
        """The runs that are kept, the oldest version first."""
        runs = (run for run in self.files.values() if isinstance(run, Run))
        return sorted(runs, key=lambda run: Version(run.version))

    def vanished(self, claims: Iterable[ClaimVerdict]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for each claim of a run that is on no page, and each broken file."""
        here = {verdict.claim.id for verdict in claims}
        gone: dict[str, list[str]] = {}
        for file, run in self.files.items():
            if isinstance(run, Problem):
                yield file, run
            else:
                for identifier in run.claims.keys() - here:
                    gone.setdefault(identifier, []).append(file)
        for identifier, files in sorted(gone.items()):
            versions = ", ".join(Path(file).stem for file in files)
            message = (
                f"claim {identifier} was judged on {self.config.package} {versions} and has "
                "vanished: judge the claims there again, or give it its id back"
            )
            lines = (self.config.root / files[0]).read_text(encoding="utf-8").splitlines()
            places = (n for n, line in enumerate(lines, 1) if f'"{identifier}"' in line)
            yield files[0], Problem(next(places, 1), message)

    def judged_nowhere(
        self, claims: Iterable[ClaimVerdict], release: Release | None
    ) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for each claim whose versions are none of those that are judged."""
        known = [run.version for run in self.runs]
        version = None if release is None else release.version
        judged = ", ".join(sorted({*known, *filter(None, [version])}, key=Version))
        folder = self.config.versions
        for verdict in claims if folder is not None else ():
            bound = broken_bound(verdict.claim, version)
            if bound is not None and all(broken_bound(verdict.claim, other) for other in known):
                message = (
                    f"no version judges claim {verdict.claim.id}: `:{bound}:` leaves out "
                    f"{self.config.package} {judged}, and there is no other in {folder}"
                )
                yield verdict.path, Problem(verdict.claim.line, message)


def read_history(config: Config) -> History:
    """Read the files that `config` names."""
    folder = config.versions
    files = sorted((config.root / folder).glob("*.json")) if folder is not None else ()
    return History(
        config=config,
        files={f"{folder}/{file.name}": read_run(file, str(config.package)) for file in files},
    )
