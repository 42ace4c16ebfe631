"""The package that a gate is asked about, however it is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from flacheck.analysis.order import by_version
from flacheck.baseline.standings import name_and_version
from flacheck.config import toml
from flacheck.errors import UsageError
from flacheck.packages import checkouts, package


@dataclass(frozen=True)
class RequestedPackage:
    """A package by its exact `version`, or a checkout by its `state`, in which the version of what
    is built from it ends (`h1a2b3c4d`): nothing is built to know that."""

    name: str
    version: str | None = None
    state: str | None = None

    @staticmethod
    def of(spec: str) -> RequestedPackage:
        """`NAME==VERSION`, or a checkout's folder. Raises UsageError for neither."""
        if checkouts.is_path(spec):
            folder = checkouts.folder(spec)
            return RequestedPackage(_project_name(folder), state=f"h{checkouts.digest(folder)[:8]}")
        name, version = package.parse(spec)
        return RequestedPackage(name, version)

    def is_about(self, about: str) -> bool:
        """Whether a question is about this package; a checkout's may be of another state of it."""
        name, version = name_and_version(about)
        if name != self.name:
            return False
        # 1.0 and 1.0.0 are one version.
        return self.version is None or by_version(version or "")[1] == by_version(self.version)[1]

    def has_changed_since(self, about: str) -> bool:
        """Whether a question was asked about a checkout in another state than it is in now."""
        return self.state is not None and not about.endswith(self.state)


def _project_name(folder: Path) -> str:
    """What a checkout's package is called; UsageError where its pyproject.toml does not say it."""
    file = folder / "pyproject.toml"
    if file.is_file():
        project = toml.loads(file.read_text(encoding="utf-8"), str(file)).get("project", {})
        if isinstance(project, dict) and isinstance(project.get("name"), str):
            return str(canonicalize_name(project["name"]))
    raise UsageError(
        f"{file}: there is no name in [project], so nothing says which package this is; give "
        "--package NAME==VERSION"
    )
