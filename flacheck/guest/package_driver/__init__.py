"""Calls a package's operators, layers and modules so that the recorder sees what they launch.

The host starts it with one argument, a JSON object: `output` (the launches file), `report` (a JSON
file), `card` (a row of the target table), `modules` (packages to drive), `package`
(`name==version`), `packages` (folder → `name==version`), `recipe` (a parsed recipe), `dtypes`,
`seconds` (of CPU, all in all).

The report: {"import_error"?: {"module", "type", "text", "traceback"}, "modules": {module: why it is
not there}, "operators": {name: {"kernels", "calls", "launches", "worked", "failures": {plan:
error}, "skipped"?}}, "seconds", "late": whether the time was over before everything was called in
every dtype}
"""

from __future__ import annotations

import json
import os
import sys
import time

from ..recorder import session
from ..recorder.settings import Settings
from .trust import Witness


def main() -> None:
    config = json.loads(sys.argv[1])
    settings = Settings(
        config["output"], config["card"], config.get("packages") or {}, config["package"]
    )
    with session(settings) as recorder:
        witness = Witness(recorder)
        report = drive(config, recorder, witness)
    witness.sift(config["output"])
    report["seconds"] = round(time.process_time(), 1)
    _write(config["report"], report)


def drive(config: dict, recorder, witness) -> dict:
    """The report of one drive."""
    import torch  # noqa: F401 the fake device stands before anything of the package is imported

    from .calls import Caller
    from .known import Shapes
    from .modules import NotImported, load
    from .operators import operators
    from .recipes import Recipe
    from .search import Search
    from .uses import Uses

    recipe = Recipe(config.get("recipe") or {})
    try:
        modules, failed = load(config["modules"], recipe.skipped_modules)
    except NotImported as error:
        return {"import_error": _import_error(error), "modules": {}, "operators": {}}
    found = operators(modules, Uses(config["modules"]))
    caller = Caller(Shapes(found, recipe), recipe, recorder, witness)
    search = Search(found, caller, recipe, config["dtypes"], config["seconds"])
    search.run()
    return {"modules": failed, "operators": search.report, "late": search.late}


def _import_error(error) -> dict:
    failure = error.failure
    return {
        "module": error.name,
        "type": failure.kind,
        "text": failure.text,
        "traceback": failure.trace,
    }


def _write(path: str, report: dict) -> None:
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    os.replace(f"{path}.part", path)
