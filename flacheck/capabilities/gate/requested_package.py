"""The package that a gate is limited to, by version or by folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from flacheck import files
from flacheck.errors import UsageError
from flacheck.evidence.analysis.order import by_version
from flacheck.evidence.baseline.standings import name_and_version
from flacheck.source.packages import checkouts, package
from flacheck.tables.settings import toml


@dataclass(frozen=True)
class RequestedPackage:
    """A package by its exact `version`, or a checkout by the `state` of its files.

    The version of a package that is built from a checkout ends in this state (`h1a2b3c4d`), so
    nothing has to be built to compare them.
    """

    name: str
    version: str | None = None
    state: str | None = None

    @staticmethod
    def of(spec: str) -> RequestedPackage:
        """Return the package of `NAME==VERSION` or of a checkout's folder.

        Raises:
            UsageError: If `spec` is neither.
        """
        if checkouts.is_path(spec):
            folder = checkouts.folder(spec)
            return RequestedPackage(_project_name(folder), state=f"h{checkouts.digest(folder)[:8]}")
        name, version = package.parse(spec)
        return RequestedPackage(name, version)

    def is_about(self, about: str) -> bool:
        """Return True for questions about this package; a checkout matches in any state."""
        name, version = name_and_version(about)
        if name != self.name:
            return False
        # 1.0 and 1.0.0 are one version.
        return self.version is None or by_version(version or "")[1] == by_version(self.version)[1]

    def has_changed_since(self, about: str) -> bool:
        """Return True if a question is about another state of the checkout."""
        return self.state is not None and not about.endswith(self.state)


def _project_name(folder: Path) -> str:
    """Return the name of a checkout's package.

    Raises:
        UsageError: If its pyproject.toml lacks a name.
    """
    file = folder / "pyproject.toml"
    if file.is_file():
        project = toml.loads(files.read_text(file), str(file)).get("project", {})
        if isinstance(project, dict) and isinstance(project.get("name"), str):
            return str(canonicalize_name(project["name"]))
    raise UsageError(
        f"{file}: there is no name in [project], so nothing says which package this is; give "
        "--package NAME==VERSION"
    )
