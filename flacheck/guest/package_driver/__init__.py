"""Calls a package's operators, layers and modules so that the recorder sees what they launch.

The host starts it with one argument, a JSON object: `output` (the launches file), `report` (a JSON
file), `card` (a row of the target table), `modules` (packages to drive), `own` (all modules of the
distribution, where they are known), `package`
(`name==version`), `packages` (folder → `name==version`), `recipe` (a parsed recipe), `dtypes`,
`seconds` (of work, as `work.py` counts it), `progress` (a file that says what is being called),
`asked` (a JSON file: what the package asked of Triton, see `earlier.py`).

The report: {"import_error"?: {"module", "type", "text", "traceback"}, "modules": {module: why it is
not there}, "operators": {name: {"kernels", "calls", "launches", "worked", "failures": {plan:
error}, "skipped"?}}, "seconds", "late": whether the time was over before everything was called in
every dtype, "cut": operators that were not called for want of time, "refused": {kernel: why
Triton's launcher refuses its launch}, "untaken": {kernel that took none of its launches: what
Triton's front end said}, "said": [{"text", "by"}]:
warnings about releases of Triton or torch, "like": the release whose capture was taken over, see
`earlier.py`}
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..recorder.recorder import Recorder
from ..recorder.session import Settings, session
from .asked import TritonAnswers
from .heard import listening
from .trust import Witness

if TYPE_CHECKING:
    from .earlier import MetWhileImported
    from .interview import Interview


def main() -> None:
    config = json.loads(sys.argv[1])
    packages = config.get("packages") or {}
    settings = Settings(config["output"], config["card"], packages, config["package"])
    answers = TritonAnswers()
    with session(settings) as recorder:
        answers.begin()
        witness = Witness(recorder)
        with listening() as heard:
            report = drive(config, recorder, witness, answers)
        answers.end()
        report["said"] = [{"text": text, "by": by} for text, by in heard.items()]
    met: MetWhileImported | None = report.pop("met", None)
    interview: Interview | None = report.pop("interview", None)
    witness.sift(config["output"])
    if met is not None and interview is not None and config.get("asked"):
        _write(met.told(recorder, interview, report["said"]), config["asked"])
    report["seconds"] = round(time.process_time(), 1)
    _write(report, config["report"])


def _write(told: Mapping[str, Any], to: str) -> None:
    partial = f"{to}.part"
    with open(partial, "w", encoding="utf-8") as file:
        # Of a kernel's decorators, say, some are objects of Triton's.
        json.dump(told, file, indent=1, default=repr)
    os.replace(partial, to)


def drive(
    config: Mapping[str, Any], recorder: Recorder, witness: Witness, answers: TritonAnswers
) -> dict[str, Any]:
    import torch  # noqa: F401 the fake device stands before anything of the package is imported

    from .calls import Caller
    from .drawn import start_over
    from .earlier import MetWhileImported
    from .modules import NotImported, load
    from .offered import operators
    from .overheard import Overheard
    from .plans import Recipe
    from .search import OperatorSearch
    from .shapes import Shapes

    def tell(doing: str) -> None:
        if config.get("progress"):
            with open(config["progress"], "w", encoding="utf-8", errors="replace") as file:
                file.write(doing)

    recipe = Recipe(config.get("recipe") or {})
    tell(f"importing {', '.join(config['modules'])}")
    start_over()
    try:
        modules, failed = load(config["modules"], recipe.skipped_modules, config.get("own") or ())
    except NotImported as error:
        name, caught = error.args
        failed = {"module": name, "type": caught.kind, "text": caught.text}
        failed["traceback"] = caught.trace
        return {"import_error": failed, "modules": {}, "operators": {}}
    offered = operators(modules, config["modules"])
    met = MetWhileImported(answers, modules, failed, config.get("packages") or {})
    overheard = Overheard(modules, offered)
    caller = Caller(Shapes(offered, recipe), recipe, recorder, witness, overheard)
    search = OperatorSearch(offered, caller, config["dtypes"], config["seconds"], tell, caller.work)
    search.run()
    return {
        "modules": failed,
        "operators": search.report,
        "late": search.late,
        "cut": search.cut,
        "refused": recorder.refused,
        "untaken": caller.untaken,
        "met": met,
        "interview": caller.interview,
    }
