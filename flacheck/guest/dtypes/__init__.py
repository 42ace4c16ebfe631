"""Follows the dtypes of layers, functions and models on a card that is not there, from parameters
to the kernels that they launch.

The host starts it with one argument, a JSON object: `output` (a launches file), `report` (a JSON
file), `card` (a row of the target table; None for this machine's card), `packages` (folder →
`name==version`), `package`, `modules` (a package's own), `recipe`, `targets` (`module:name` or
`file.py:name`; all layers of the modules when there is none), `settings` (arguments by name),
`stand_ins` (compiled modules that are not here, to be stood in for), `modes` (objects with
`autocast` and `params`: those that are asked), `heads` (head sizes to run them at, too, in place of
what they are compared with), `seconds` (of CPU, all in all); or `script`, which is run in place of
targets: `words` (the file or `-m` and a module, and its arguments), `name`, `folder` to run it in,
`forced` (a mode in place of its own, or None), `overlay` (a folder to find modules in first, or
None), in the one of `modes`; without modes only its own is `learned`.

The report: {"error"?: why a target cannot be followed, "modules": {module: why it is not there},
"late": the targets that the time did not suffice for, "missing": {first name of a module that is
nowhere: the modules that asked for it}, "subjects": [{"name", "plan", "failed"?: the
error of every call tried, "runs": [run]}]}. A run: {"mode", "promotions": [{"place", "phase",
"halves", "wide", "from", "to"}], "overflows", "launches": [{"kernel", "phase", "ids" (of launches
in the launches file), "args": {name: {"dtype", "kind", "name", "events", "dims"}}}], "order": the
indices of those as they came, "error": None or {"stage", "type", "text", "trace", "place", "kind",
"about"}}. A subject's `heads`: [{"size", "settings" (what made heads so wide), "run": the run, None
when nothing did}], in the modes asked. An argument's `events` are indices of the run's promotions.
Beside each mode asked stand the runs that it is compared with: its half dtype for parameters and
arguments, with autocast and without.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..recorder.recorder import Recorder
from ..recorder.session import Settings, session

# Calls that are tried once the forward pass works, for a backward pass that does as well.
_MORE = 3


def main() -> None:
    config = json.loads(sys.argv[1])
    settings = Settings(
        config["output"], config["card"], config.get("packages") or {}, config.get("package")
    )
    follow_it = follow
    if config.get("script"):
        follow_it = follow_script
    with session(settings) as recorder:
        report = follow_it(config, recorder)
    report["seconds"] = round(time.process_time(), 1)
    partial = f"{config['report']}.part"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(partial, config["report"])


def follow(config: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    import torch  # noqa: F401 the fake device stands before anything of the package is imported

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
    failed: dict[str, str] = {}
    report: dict[str, Any] = {"modules": failed, "subjects": [], "late": []}
    try:
        if config["targets"]:
            chosen = _named(config["targets"], config["modules"], stand_ins)
            offered = [each.operator for each in chosen]
        else:
            modules, failed = load(config["modules"], recipe.skipped_modules)
            offered = find_operators(modules, config["modules"])
            chosen = subjects.layers(offered)
        builder = building.Builder(offered, recipe, config.get("settings") or {})
        for each in chosen:
            builder.plan(each)
    except subjects.NoTarget as error:
        return {**report, "error": str(error), "kind": "target"}
    except NotImported as error:
        report["missing"] = _listed(stand_ins.missing)
        return {**report, "error": error.args[1].brief(), "kind": "import"}
    except Exception as error:
        # Somebody else's module may raise whatever it likes.
        report["missing"] = _listed(stand_ins.missing)
        return {**report, "error": f"{type(error).__name__}: {error}", "kind": "import"}
    report["modules"] = failed
    recorder.on_launch = follower.launch
    recorder.journal.on_launch = follower.ids.append
    runner = Runner(builder, follower)
    for subject in chosen:
        if time.process_time() > config["seconds"]:
            report["late"].append(subject.name)
        else:
            asked, heads = config["modes"], config.get("heads") or ()
            report["subjects"].append(_followed(subject, builder, runner, asked, heads))
    report["missing"] = _listed(stand_ins.missing)
    return report


def _named(targets: list[str], modules: list[str], stand_ins: Any) -> list[Any]:
    """The subjects of these names; what the module of each needs may be stood in for."""
    from ..search.modules import import_package
    from . import subjects

    for name in modules:
        import_package(name)
    chosen = []
    for target in targets:
        stand_ins.packages.add(subjects.module_of(target).partition(".")[0])
        chosen.append(subjects.named(target))
    return chosen


def follow_script(config: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    """A program, followed in one mode; or the mode that it runs in, `learned`."""
    import torch  # noqa: F401 the fake device stands before the program imports anything

    from .follower import Follower
    from .runs import Precision
    from .scripts import Program

    script = config["script"]
    os.chdir(script["folder"])
    follower = Follower()
    recorder.on_launch = follower.launch
    recorder.journal.on_launch = follower.ids.append
    forced = None
    if script["forced"] is not None:
        forced = Precision(**script["forced"])
    program = Program(script["words"], forced, follower, script["overlay"])
    report: dict[str, Any] = {"modules": {}, "subjects": [], "late": []}
    if not config["modes"]:
        error = program.learn(config["seconds"])
        if error is not None:
            report.update(error=error.brief(), kind="raised")
        elif program.learned is not None:
            report["learned"] = program.learned.to_json()
        return report
    mode = Precision(**config["modes"][0])
    run = program.followed(mode, config["seconds"])
    subject = {"name": script["name"], "plan": "as it is", "runs": [run]}
    return {**report, "subjects": [subject]}


def _listed(missing: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {name: sorted(importers) for name, importers in missing.items()}


def _followed(
    subject: Any, builder: Any, runner: Any, asked: list[dict[str, str]], sizes: Sequence[int]
) -> Any:
    """A subject in the modes asked and in those to compare with, called in a way that works in one
    of the latter; else as its first call goes."""
    from . import heads
    from .runs import Precision

    modes = [Precision(each["autocast"], each["params"]) for each in asked]
    runs: dict[Any, Any] = {}
    plan = None
    failures: list[Any] = []
    tried = [reference for mode in modes for reference in references(mode)]
    for reference in dict.fromkeys([*tried, *modes]):
        run = functools.partial(runner.run, subject, mode=reference)
        plan, failed = _working(builder.working(subject, run))
        failures += failed
        if plan is not None:
            break
    if plan is None:
        return {"name": subject.name, "failed": failures, "runs": []}
    compared = tried
    if sizes:
        # Only the launches count, there is nothing to judge.
        compared = []
    for mode in dict.fromkeys([*modes, *compared]):
        runs[mode] = runner.run(subject, plan, mode)
    at_sizes = [
        heads.at_size(runner, subject, plan, mode, size, runs[mode])
        for mode in modes
        for size in sizes
    ]
    said = [run.said for run in runs.values()]
    return {"name": subject.name, "plan": plan.identity, "runs": said, "heads": at_sizes}


def _working(tries: Any) -> tuple[Any, list[Any]]:
    """The first call that works, else the first whose forward pass does, and what the others
    raised."""
    forward, left = None, _MORE
    failures: list[Any] = []
    for plan, ran in tries:
        if ran.caught is None:
            return plan, failures
        if ran.stage == "backward" and forward is None:
            forward = plan
        elif ran.stage != "backward":
            failures.append(ran.said["error"])
        left -= forward is not None
        if not left:
            break
    return forward, failures


def references(mode: Any) -> list[Any]:
    """What a mode is compared with: everything in its half dtype, without autocast and under it."""
    from .runs import Precision

    half = mode.params
    if mode.autocast != "off":
        half = mode.autocast
    if mode.autocast == "off":
        return [Precision("off", half)]
    return [Precision("off", half), Precision(mode.autocast, half)]
