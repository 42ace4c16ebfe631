"""Asks the guest: which dtypes reach the kernels of some targets, in some modes."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck.capture.cards import card
from flacheck.capture.drive import guest_environment, recipe_of, run_guest
from flacheck.dtypes import judging, observed, stood_in
from flacheck.dtypes.finding import DtypeFinding
from flacheck.dtypes.observed import Mode, Observation
from flacheck.errors import IncompleteError, UsageError
from flacheck.model import Json
from flacheck.packages.package import Package
from flacheck.toolchains.base import Toolchain

_LOG = logging.getLogger(__name__)

# Of CPU, for one target and for all of a package; a model's layers initialise themselves slowly.
SECONDS_OF_TARGET, SECONDS_OF_PACKAGE = 300, 1500


@dataclass(frozen=True)
class DtypesQuestion:
    """What is asked: `targets` by name, or all layers of the `package`; the `modes`, arguments by
    name (`settings`), and the card to imitate. Modules are also found in the folders `paths`;
    `heads` are head sizes to run the targets at, too; without `asserts` no assertion ends a run."""

    targets: tuple[str, ...]
    modes: tuple[Mode, ...]
    toolchain: Toolchain
    package: Package | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str = "h100"
    paths: tuple[str, ...] = ()
    heads: tuple[int, ...] = ()
    asserts: bool = True


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


def follow(question: DtypesQuestion, folder: Path, overlay: Path | None = None) -> DtypesAnswer:
    """Start the guest in a folder of ours, and once more for what cannot be followed without a
    module that is not here, with stand-ins for it. `overlay` holds mended copies of the modules
    that are followed, which come before the others.

    Raises UsageError for a target that cannot be followed, IncompleteError when nothing came out.
    """
    answer = _started(question, folder, overlay)
    seen = answer.observation
    if seen.error is not None and seen.kind == "import":
        needed = stood_in.named_in(seen.error, seen.missing)
        if needed:
            again = _started(question, folder, overlay, needed)
            if again.observation.error is None:
                observation = stood_in.marked(again.observation, needed)
                return replace(again, observation=observation)
    _check(question, seen)
    needs = stood_in.needs(seen)
    for needed, names in needs.items():
        narrowed = replace(question, targets=_as_asked(question, names))
        again = _started(narrowed, folder, overlay, needed)
        if again.observation.error is None:
            seen = stood_in.merged(seen, again.observation, needed)
            answer = replace(answer, launches=(*answer.launches, *again.launches))
    return replace(answer, observation=seen)


def _as_asked(question: DtypesQuestion, names: Sequence[str]) -> tuple[str, ...]:
    """Subjects as targets: a file's subject by the target that named it."""
    asked = {_subject(target): target for target in question.targets}
    return tuple(asked.get(name, name) for name in names)


def _subject(target: str) -> str:
    where, _, name = target.rpartition(":")
    if where.endswith(".py"):
        where = Path(where).stem
    return f"{where}:{name}"


def _check(question: DtypesQuestion, seen: Observation) -> None:
    if seen.error is not None and seen.kind == "target":
        raise UsageError(seen.error)
    if seen.error is not None:
        raise IncompleteError(f"{_what(question)}: cannot be imported: {seen.error}")


def _what(question: DtypesQuestion) -> str:
    if question.targets:
        return ", ".join(question.targets)
    assert question.package is not None
    return f"all layers of {question.package.identity}"


def _started(
    question: DtypesQuestion,
    folder: Path,
    overlay: Path | None,
    stand_ins: Sequence[str] = (),
) -> DtypesAnswer:
    """What one start of the guest saw."""
    work = Path(tempfile.mkdtemp(dir=folder))
    launches, report = work / "launches.jsonl", work / "report.json"
    launches.write_text("", encoding="utf-8")
    environment = guest_environment(question.toolchain, question.package, work)
    # The guest runs elsewhere, and finds what a program would that is started here.
    found = [environment["PYTHONPATH"], *question.paths, str(Path.cwd())]
    roots = []
    packages: dict[str, str] = {}
    recipe: Json = {}
    modules: tuple[str, ...] = ()
    name = None
    if overlay is not None:
        roots.append(overlay)
        found.insert(0, str(overlay))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, found))
    package = question.package
    if package is not None:
        roots.append(Path(package.path))
        name, modules, recipe = package.identity, package.modules, recipe_of(package.name)
        packages = {str(root): package.identity for root in roots}
    seconds = SECONDS_OF_PACKAGE
    if question.targets:
        seconds = SECONDS_OF_TARGET * len(question.targets)
    config: Json = {
        "output": str(launches),
        "report": str(report),
        "card": card(question.device),
        "package": name,
        "packages": packages,
        "modules": list(modules),
        "recipe": recipe,
        "targets": list(map(_placed, question.targets)),
        "settings": dict(question.settings),
        "stand_ins": list(stand_ins),
        "heads": list(question.heads),
        "modes": [{"autocast": mode.autocast, "params": mode.params} for mode in question.modes],
        "seconds": seconds,
    }
    if not question.asserts:
        environment["PYTHONOPTIMIZE"] = "1"
    beside = ""
    if stand_ins:
        beside = f" with stand-ins for {', '.join(stand_ins)}"
    _LOG.info(f"following the dtypes of {_what(question)}{beside} …")
    run_guest(".dtypes", config, environment, work, seconds)
    seen = observed.from_report(json.loads(report.read_text(encoding="utf-8")))
    return DtypesAnswer(seen, (launches,), tuple(roots))


def _placed(target: str) -> str:
    """`FILE.py:NAME` with the whole path of its file; UsageError for a file that is not there."""
    where, colon, name = target.rpartition(":")
    if not where.endswith(".py"):
        return target
    if not Path(where).is_file():
        raise UsageError(f"there is no file {where}; give FILE.py:NAME, or MODULE:NAME")
    return f"{Path(where).absolute()}{colon}{name}"


def findings(answer: DtypesAnswer, asked: Sequence[Mode]) -> list[DtypeFinding]:
    """Every finding of every subject, in the order in which they were followed."""
    subjects = answer.observation.subjects
    wanted = judging.wants(subjects, asked)
    found = []
    for subject in subjects:
        for mode in asked:
            found += judging.judge(subject, mode, wanted, answer.shown)
    return found
