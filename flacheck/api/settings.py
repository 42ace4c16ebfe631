"""Settings and variables, as defaults of the API's arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flacheck import files
from flacheck.api.arguments import (
    dtypes,
    numbers,
    packages_of,
    seconds,
    split,
    torch_requirements,
)
from flacheck.errors import UsageError, did_you_mean
from flacheck.tables.settings import settings
from flacheck.tables.settings.durations import rounded as rounded
from flacheck.tables.settings.settings import SettingsFile as SettingsFile
from flacheck.tables.settings.settings import read_user as read_user
from flacheck.tables.settings.settings import user_file as user_file

# The one setting that is not an argument.
WAIVERS = settings.WAIVERS


def read_project(folder: Path) -> SettingsFile:
    """Return the nearest `[tool.flacheck]`; UsageError for settings or waivers that are wrong."""
    project = settings.read(folder)
    settings.waivers(folder)
    return project


def suggest(name: str, known: list[str]) -> str:
    """Return `; did you mean NAME?`, or "" where no known name is close."""
    return did_you_mean(name, known)


def is_compiler_path(text: str) -> bool:
    """Return True if a specification of compilers is a path or contains one."""
    from flacheck.toolchains import is_path, split_specs

    return any(map(is_path, (text, *split_specs(text))))


def split_packages(text: str) -> list[str]:
    """Return the packages in a text that is not a folder's name."""
    from flacheck.toolchains import split_specs

    return split_specs(text)


def packages_outside(matrix: str, project: Path) -> list[str]:
    """Return the packages of a project's matrix that do not lie in the project's folder.

    Matrices that ship with flacheck may name any package; a launches file installs none.
    """
    from flacheck.source.packages import checkouts
    from flacheck.subjects.inputs.matrix import read
    from flacheck.subjects.inputs.subject import line_of

    file, _ = line_of(matrix)
    if file.suffix == ".jsonl" or not file.is_file():
        return []
    outside = []
    for package in read(file).packages:
        is_inside = Path(package).expanduser().resolve().is_relative_to(project.resolve())
        if not (checkouts.is_path(package) and is_inside):
            outside.append(package)
    return outside


def check_dry_run(packages: list[str] | None) -> None:
    """Raise UsageError for a checkout in a setting that a dry run would build."""
    from flacheck.source.packages import package

    for name in packages_of(packages):
        if package.has_to_be_built(name):
            raise UsageError(
                f"--dry-run builds no checkout that only settings name, and {name} is not built "
                f"yet: give --package {name}"
            )


def check(name: str, value: Any) -> None:
    """Raise UsageError if an argument cannot have that value."""
    function = _CHECKS.get(name)
    if function is not None:
        function(value)


def _check_targets(values: list[str]) -> None:
    from flacheck.tables import targets

    for name in split(values):
        targets.find(name)


def _check_matrix(value: str) -> None:
    from flacheck.subjects.inputs import matrix
    from flacheck.subjects.inputs.subject import line_of

    file, _ = line_of(value)
    if file.suffix != ".jsonl":
        matrix.find(value)
        return
    try:
        files.open_bytes(file, files.MOST_LAUNCHES).close()
    except OSError as error:
        raise matrix.unreadable(file, error) from None


def _check_packages(values: list[str]) -> None:
    from flacheck.source.packages import checkouts, package

    for name in packages_of(values):
        if not checkouts.is_path(name):
            # A name alone stands for a version that is chosen when a command runs.
            if not package.is_name(name):
                package.parse(name)
        elif not Path(name).expanduser().is_dir():
            raise UsageError("there is no such folder")


def _check_until(value: str) -> None:
    from flacheck.toolchains import stages

    stage_names = stages()
    if value not in stage_names:
        raise UsageError(
            f"expected one of {', '.join(stage_names)}{did_you_mean(value, stage_names)}"
        )


_CHECKS: dict[str, Callable[[Any], object]] = {
    "dtype": dtypes,
    "target": _check_targets,
    "torch": torch_requirements,
    "num_warps": lambda values: numbers("num-warps", values),
    "num_stages": lambda values: numbers("num-stages", values),
    "timeout": seconds,
    "matrix": _check_matrix,
    "package": _check_packages,
    "until": _check_until,
}
