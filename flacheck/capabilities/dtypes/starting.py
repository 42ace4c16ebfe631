"""Starts the guest: what one process sees of some targets, or of a program of the user's own."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck.capabilities.dtypes import observed
from flacheck.capabilities.dtypes.observed import Mode, Observation
from flacheck.captures.capture_job import guest_environment, recipe_of, run_guest
from flacheck.captures.cards import card
from flacheck.engine import policies
from flacheck.errors import UsageError
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json
from flacheck.packages.package import Package
from flacheck.toolchains.base import Toolchain

_LOG = logging.getLogger(__name__)

# Of CPU, for one target and for all of a package; a model's layers initialise themselves slowly.
SECONDS_OF_TARGET, SECONDS_OF_PACKAGE = 300, 1500
# What a program's own environment does not decide.
_OURS = ("PYTHONPATH", "TORCHDYNAMO_DISABLE", "TRITON_CACHE_DIR", "PYTHONOPTIMIZE")


@dataclass(frozen=True)
class DtypesQuestion:
    """What is asked: `targets` by name, or all layers of the `package`; the `modes`, arguments by
    name (`settings`), and the card to imitate. Modules are also found in the folders `paths`;
    `heads` are head sizes to run the targets at, too; without `asserts` no assertion ends a run.
    In place of targets a `script` (a file or `-m` and a module, and its arguments) is run, which
    by itself runs in its `own_mode`."""

    targets: tuple[str, ...]
    modes: tuple[Mode, ...]
    toolchain: Toolchain
    package: Package | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str = "h100"
    paths: tuple[str, ...] = ()
    heads: tuple[int, ...] = ()
    asserts: bool = True
    script: tuple[str, ...] = ()
    own_mode: Mode | None = None


@dataclass(frozen=True)
class DtypesAnswer:
    """What was seen, and the launches files; `roots` are the folders that files are named from."""

    observation: Observation
    launches: tuple[Path, ...]
    roots: tuple[Path, ...]

    def shown(self, file: str) -> str:
        """A file as a report names it: from its package's folder, or from here."""
        path = Path(file)
        for root in (*self.roots, Path.cwd()):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return file


def what(question: DtypesQuestion) -> str:
    """What is asked about, for people."""
    if question.script:
        return " ".join(question.script)
    if question.targets:
        return ", ".join(question.targets)
    assert question.package is not None
    return f"all layers of {question.package.identity}"


def started(
    question: DtypesQuestion,
    folder: Path,
    overlay: Path | None,
    stand_ins: Sequence[str] = (),
    forced: Mode | None = None,
) -> DtypesAnswer:
    """What one start of the guest saw. A script is `forced` into a mode that is not its own.

    Raises IncompleteError when nothing came out.
    """
    work = Path(tempfile.mkdtemp(dir=folder))
    launches, report = work / "launches.jsonl", work / "report.json"
    launches.write_text("", encoding="utf-8")
    seconds = SECONDS_OF_PACKAGE
    if question.targets:
        seconds = SECONDS_OF_TARGET * len(question.targets)
    config: Json = {
        "output": str(launches),
        "report": str(report),
        "card": card(question.device),
        "targets": list(map(_placed, question.targets)),
        "settings": dict(question.settings),
        "stand_ins": list(stand_ins),
        "heads": list(question.heads),
        "modes": [{"autocast": mode.autocast, "params": mode.params} for mode in question.modes],
        "seconds": seconds,
        **_of_package(question.package, overlay),
    }
    if question.script:
        config["script"] = _script(question, overlay, forced)
    beside = ""
    if stand_ins:
        beside = f" with stand-ins for {', '.join(stand_ins)}"
    _LOG.info(f"following the dtypes of {what(question)}{beside} …")
    environment = _environment(question, work, overlay)
    run_guest(".dtypes", config, environment, work, seconds, _policy(question, environment, work))
    seen = observed.from_report(json.loads(report.read_text(encoding="utf-8")))
    return DtypesAnswer(seen, (launches,), _roots(question.package, overlay))


def _roots(package: Package | None, overlay: Path | None) -> tuple[Path, ...]:
    """The folders that a package's files lie in, those that are laid over it first."""
    roots = []
    if overlay is not None:
        roots.append(overlay)
    if package is not None:
        roots.append(Path(package.path))
    return tuple(roots)


def _of_package(package: Package | None, overlay: Path | None) -> Json:
    """What the guest is told of the package."""
    if package is None:
        return {"package": None, "packages": {}, "modules": [], "recipe": {}}
    return {
        "package": package.identity,
        "packages": {str(root): package.identity for root in _roots(package, overlay)},
        "modules": list(package.modules),
        "recipe": recipe_of(package.name),
    }


def _environment(question: DtypesQuestion, work: Path, overlay: Path | None) -> dict[str, str]:
    """The environment variables of the guest."""
    environment = guest_environment(question.toolchain, question.package, work)
    # The guest runs elsewhere, and finds what a program would that is started here.
    found = [environment["PYTHONPATH"], *question.paths, str(Path.cwd())]
    if overlay is not None:
        found.insert(0, str(overlay))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, found))
    if not question.asserts:
        environment["PYTHONOPTIMIZE"] = "1"
    if question.script:
        # It may need what the user set for it.
        environment.update({n: value for n, value in os.environ.items() if n not in _OURS})
    return environment


def _policy(question: DtypesQuestion, environment: Mapping[str, str], work: Path) -> Policy | None:
    """A script may do all that its user can, and a program of the user's own reads what it needs;
    a package is confined."""
    if question.script:
        return None
    if question.package is None or any(".py:" in target for target in question.targets):
        return policies.OWN
    found = environment["PYTHONPATH"].split(os.pathsep)
    return policies.of_package(policies.compiler_folders(found), str(work))


def _script(question: DtypesQuestion, overlay: Path | None, forced: Mode | None) -> Json:
    words = list(question.script)
    if words[0] != "-m":
        words[0] = str(Path(words[0]).absolute())
    script: Json = {"words": words, "name": script_name(question.script), "overlay": None}
    script.update(folder=str(Path.cwd()), forced=None)
    if overlay is not None:
        script["overlay"] = str(overlay)
    if forced is not None:
        script["forced"] = {"autocast": forced.autocast, "params": forced.params}
    return script


def script_name(words: Sequence[str]) -> str:
    """What a report calls a program: its file, or its module."""
    if words[0] == "-m":
        return words[1]
    return Path(words[0]).name


def _placed(target: str) -> str:
    """`FILE.py:NAME` with the whole path of its file; UsageError for a file that is not there."""
    where, colon, name = target.rpartition(":")
    if not where.endswith(".py"):
        return target
    if not Path(where).is_file():
        raise UsageError(f"there is no file {where}; give FILE.py:NAME, or MODULE:NAME")
    return f"{Path(where).absolute()}{colon}{name}"
