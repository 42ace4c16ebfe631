"""Dtypes of layers, functions and models on an imitated card, from parameters to kernels.

The host starts it with one argument, a JSON object: `output` (a launches file), `report` (a JSON
file), `card` (a row of the target table; None for this machine's card), `packages` (folder →
`name==version`), `package`, `modules` (a package's own), `recipe`, `targets` (`module:name` or
`file.py:name`; all layers of the modules if empty), `settings` (arguments by name), `stand_ins`
(missing compiled modules to replace), `modes` (objects with `autocast` and `params`), `heads` (head
sizes to run the modes at, in place of the reference modes), `seconds` (of CPU, in total).

The report: {"error"?: why a target cannot be followed, "modules": {module: why its import failed},
"late": the targets that the time limit excluded, "missing": {first name of a module that is not
installed: the modules that import it}, "subjects": [{"name", "plan", "failed"?: the error of every
call, "runs": [run]}]}. A run: {"mode", "promotions": [{"place", "phase", "halves", "wide", "from",
"to"}], "casts": [{"place", "halves", "from", "to"}], "overflows", "launches": [{"kernel", "phase",
"place", "ids" (of launches in the launches file), "args": {name: {"dtype", "kind", "name",
"events", "casts", "dims"}}}], "order": the launches' indices in order of time, "error": None or
{"stage", "type", "text", "trace", "place", "kind", "about"}}. A
subject's `heads`: [{"size", "settings" (that set the head size), "run": the run, None if no setting
works}], in `modes`. An argument's `events` are indices of the run's promotions, its `casts` those
of casts by the program or by autocast. A mode of the config has the runs of its reference modes
beside it: its half dtype for parameters and arguments, with autocast and without, and float32
everywhere.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..engine import channel
from ..recorder.recorder import Recorder
from ..recorder.session import Settings, session

# Further calls to try for a working backward pass, once the forward pass works.
_MORE = 3


def main() -> None:
    config = channel.read_config()
    settings = Settings(
        config["output"], config["card"], config.get("packages") or {}, config.get("package")
    )
    with session(settings) as recorder:
        report = follow(config, recorder)
    report["seconds"] = round(time.process_time(), 1)
    partial = f"{config['report']}.part"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(partial, config["report"])


def follow(config: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    import torch  # noqa: F401 the fake device comes before any import of the package

    from ..inference.plans import Recipe
    from ..search.entry_points import find_operators
    from ..search.modules import NotImported, load
    from . import building, subjects
    from .follower import Follower
    from .runs import Runner
    from .stand_ins import StandIns

    follower = Follower()
    packages = {name.partition(".")[0] for name in config["modules"]}
    stand_ins = StandIns(packages, config.get("stand_ins") or (), follower.launch)
    sys.meta_path.append(stand_ins)
    recipe = Recipe(config.get("recipe") or {})
    failures: dict[str, str] = {}
    report: dict[str, Any] = {"modules": failures, "subjects": [], "late": []}
    try:
        if config["targets"]:
            followables = _find_subjects(config["targets"], config["modules"], stand_ins)
            operators = [each.operator for each in followables]
        else:
            modules, failures = load(config["modules"], recipe.skipped_modules)
            operators = find_operators(modules, config["modules"])
            followables = subjects.layers(operators)
        builder = building.Builder(operators, recipe, config.get("settings") or {})
        for each in followables:
            builder.plan(each)
    except subjects.NoTarget as error:
        return {**report, "error": str(error), "kind": "target"}
    except NotImported as error:
        report["missing"] = _sort_missing(stand_ins.missing)
        return {**report, "error": error.args[1].brief(), "kind": "import"}
    report["modules"] = failures
    recorder.on_launch = follower.launch
    recorder.journal.on_launch = follower.ids.append
    runner = Runner(builder, follower)
    for subject in followables:
        if time.process_time() > config["seconds"]:
            report["late"].append(subject.name)
        else:
            asked_modes, heads = config["modes"], config.get("heads") or ()
            report["subjects"].append(_follow_subject(subject, builder, runner, asked_modes, heads))
    report["missing"] = _sort_missing(stand_ins.missing)
    return report


def _find_subjects(targets: list[str], modules: list[str], stand_ins: Any) -> list[Any]:
    """Return the subjects of these names; modules that they need may get stand-ins."""
    from ..search.modules import import_package
    from . import subjects

    for name in modules:
        import_package(name)
    followables = []
    for target in targets:
        stand_ins.packages.add(subjects.module_of(target).partition(".")[0])
        followables.append(subjects.find_subject(target))
    return followables


def _sort_missing(missing: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    sorted_importers = {}
    for name, importers in missing.items():
        sorted_importers[name] = sorted(importers)
    return sorted_importers


def _follow_subject(
    subject: Any, builder: Any, runner: Any, asked_modes: list[dict[str, str]], sizes: Sequence[int]
) -> Any:
    """Follow a subject in its modes and in their reference modes.

    The subject is called in a way that works in a reference mode, else in its own modes, else in
    the first way that launches kernels before it fails: these launches are judged.
    """
    from . import heads
    from .runs import Precision

    modes = [Precision(each["autocast"], each["params"]) for each in asked_modes]
    runs: dict[Any, Any] = {}
    plan = partial_plan = None
    failures: list[Any] = []
    reference_modes: list[Any] = []
    for mode in modes:
        reference_modes += references(mode)
    for reference in dict.fromkeys([*reference_modes, *modes]):
        run = functools.partial(runner.run, subject, mode=reference)
        plan, launching, errors = _first_working(builder.find_working(subject, run))
        partial_plan = partial_plan or launching
        failures += errors
        if plan is not None:
            break
    plan = plan or partial_plan
    if plan is None:
        return {"name": subject.name, "failed": failures, "runs": []}
    if sizes:
        # Runs at other head sizes are not judged, so they need no comparison.
        reference_modes = []
    for mode in dict.fromkeys([*modes, *reference_modes]):
        runs[mode] = runner.run(subject, plan, mode)
    at_sizes = []
    for mode in modes:
        for size in sizes:
            at_sizes.append(heads.at_size(runner, subject, plan, mode, size, runs[mode]))
    reports = []
    for run in runs.values():
        reports.append(run.report)
    return {"name": subject.name, "plan": plan.identity, "runs": reports, "heads": at_sizes}


def _first_working(tries: Any) -> tuple[Any, Any, list[Any]]:
    """Return a call that works, a call that fails after launches, and the errors of the others.

    If no call works as a whole, the first is one whose forward pass works.
    """
    forward = launching = None
    remaining_tries = _MORE
    failures: list[Any] = []
    for plan, ran in tries:
        if ran.caught is None:
            return plan, launching, failures
        if ran.stage == "backward" and forward is None:
            forward = plan
        elif ran.stage != "backward":
            failures.append(ran.report["error"])
        if launching is None and ran.stage == "forward" and ran.report["order"]:
            launching = plan
        remaining_tries -= forward is not None
        if not remaining_tries:
            break
    return forward, launching, failures


def references(mode: Any) -> list[Any]:
    """Return the modes to compare a mode with.

    These have its half dtype everywhere, without autocast and with it, or float32 everywhere.
    """
    from .runs import Precision

    half = mode.params
    if mode.autocast != "off":
        half = mode.autocast
    plain = [Precision("off", half), Precision("off", "fp32")]
    if mode.autocast == "off":
        return plain
    return [plain[0], Precision(mode.autocast, half), plain[1]]
