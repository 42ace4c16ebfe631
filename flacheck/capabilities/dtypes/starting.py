"""Start of the guest process that follows targets or a user's own program."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from flacheck import files
from flacheck.capabilities.dtypes import observation
from flacheck.capabilities.dtypes.observation import Mode, Observation
from flacheck.engine import policies
from flacheck.errors import UsageError
from flacheck.files import GuestFileError, GuestFolder
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json
from flacheck.source.packages.package import Package
from flacheck.subjects.captures.capture_archive import LAUNCHES, REPORT
from flacheck.subjects.captures.capture_job import guest_environment, recipe_of, run_guest
from flacheck.subjects.captures.cards import card
from flacheck.toolchains.base import Toolchain

_LOG = logging.getLogger(__name__)

# CPU seconds for one target and for a whole package; layers of a model initialise slowly.
SECONDS_OF_TARGET, SECONDS_OF_PACKAGE = 300, 1500


@dataclass(frozen=True)
class DtypesQuestion:
    """The targets to follow and how.

    `targets` are names; without any, all layers of the `package` are followed. `settings` are
    arguments by name, `device` is the card to imitate. `heads` are further head sizes to run the
    targets at; without `asserts` no assertion ends a run.
    """

    targets: tuple[str, ...]
    modes: tuple[Mode, ...]
    toolchain: Toolchain
    package: Package | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str = "h100"
    heads: tuple[int, ...] = ()
    asserts: bool = True


@dataclass(frozen=True)
class DtypesAnswer:
    """The observation of a run and its launches files; `roots` are the folders of source files."""

    observation: Observation
    launches: tuple[Path, ...]
    roots: tuple[Path, ...]

    def display_path(self, file: str) -> str:
        """Return a file's path relative to its package's folder or to the current folder."""
        path = Path(file)
        for root in (*self.roots, Path.cwd()):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return file


def describe_question(question: DtypesQuestion) -> str:
    """Return the subject of a question for messages."""
    if question.targets:
        return ", ".join(question.targets)
    assert question.package is not None
    return f"all layers of {question.package.identity}"


def observe(
    question: DtypesQuestion,
    folder: Path,
    stand_ins: Sequence[str] = (),
) -> DtypesAnswer:
    """Run the guest once, with stand-ins for these modules.

    Raises IncompleteError for a run without a report.
    """
    scratch = GuestFolder(Path(tempfile.mkdtemp(dir=folder)))
    seconds = SECONDS_OF_PACKAGE
    if question.targets:
        seconds = SECONDS_OF_TARGET * len(question.targets)
    config: Json = {
        "card": card(question.device),
        "targets": list(map(_resolve_target, question.targets)),
        "settings": dict(question.settings),
        "stand_ins": list(stand_ins),
        "heads": list(question.heads),
        "modes": list(map(msgspec.to_builtins, question.modes)),
        "seconds": seconds,
        **_of_package(question.package),
    }
    beside = ""
    if stand_ins:
        beside = f" with stand-ins for {', '.join(stand_ins)}"
    what = f"following the dtypes of {describe_question(question)}{beside}"
    _LOG.info(f"{what} …")
    environment = _environment(question, scratch.path)
    policy = _policy(question, environment, scratch.path)
    report = run_guest(".dtypes", config, environment, scratch, seconds, policy, what)
    # Beside the guest's folder, where nothing changes it any more.
    launches = scratch.path.with_suffix(".jsonl")
    files.write_whole(launches, scratch.read(LAUNCHES, files.MOST_LAUNCHES) or b"")
    try:
        seen_by_guest = observation.from_report(report)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise GuestFileError(REPORT, f"has an unexpected form ({error})") from None
    roots = (Path(question.package.path),) if question.package else ()
    return DtypesAnswer(seen_by_guest, (launches,), roots)


def _of_package(package: Package | None) -> Json:
    """Return the guest's configuration for the package."""
    if package is None:
        return {"package": None, "packages": {}, "modules": [], "recipe": {}}
    return {
        "package": package.identity,
        "packages": {str(package.path): package.identity},
        "modules": list(package.modules),
        "recipe": recipe_of(package.name),
    }


def _environment(question: DtypesQuestion, work: Path) -> dict[str, str]:
    """Return the environment variables of the guest."""
    environment = guest_environment(question.toolchain, question.package, work)
    # The guest runs in another folder, but has to find the modules of this one.
    search_path = [environment["PYTHONPATH"], str(Path.cwd())]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, search_path))
    if not question.asserts:
        environment["PYTHONOPTIMIZE"] = "1"
    return environment


def _policy(question: DtypesQuestion, environment: Mapping[str, str], work: Path) -> Policy:
    """Return the confinement of the guest.

    A user's own file may read everything; a package is confined.
    """
    if question.package is None or any(".py:" in target for target in question.targets):
        return policies.OWN
    search_path = environment["PYTHONPATH"].split(os.pathsep)
    return policies.of_package(policies.compiler_folders(search_path), str(work))


def _resolve_target(target: str) -> str:
    """Return the target with the absolute path of its file; UsageError for a missing file."""
    where, colon, name = target.rpartition(":")
    if not where.endswith(".py"):
        return target
    if not Path(where).is_file():
        raise UsageError(f"there is no file {where}; give FILE.py:NAME, or MODULE:NAME")
    return f"{Path(where).absolute()}{colon}{name}"
