"""Search for calls of a package's operators, layers and modules that launch all of its kernels.

The recorder writes the launches. `main` runs with one argument, a JSON object:

- `output` (the launches file), `report` (a JSON file),
- `card` (a row of the table of GPUs),
- `modules` (the packages), `own` (all modules of the distribution, if they are listed),
- `fatal` (modules whose import ends the process),
- `launchable` (the kernels that the package launches),
- `package` (`name==version`), `packages` (folder → `name==version`),
- `checkout` (the folder with the package's tests, or null),
- `recipe` (a parsed recipe), `dtypes`, `sizes` (of models, see `real_sizes`),
- `ops`, `kernels` (globs; of each kind that has some, only what can reach a match is called),
- `seconds` (the budget in seconds of work, see `work`),
- `progress` (a file for the current activity).

The report is a JSON object:

- `import_error`, if there was one: {"module", "type", "text", "traceback"},
- `modules`: {module: its import error},
- `operators`: {name: {"kernels", "calls", "launches", "worked", "failures": {plan: error}}},
- `alone`: the same of kernels that were launched alone,
- `seconds` (CPU), `late`: True if the time was over before each plan was called in each dtype,
- `cut`: the operators that were not called for lack of time,
- `refused`: {kernel: the error of Triton's launcher},
- `sought`: the selected kernels, if there are globs,
- `untaken`: {kernel without an accepted launch: the error of Triton's front end},
- `said`: [{"text", "by"}], warnings about releases of Triton or torch.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..engine import channel
from ..recorder.recorder import Recorder
from ..recorder.session import Settings, session
from ..recorder.warnings_log import WarningsLog, record_warnings
from .trust import LaunchTrust

if TYPE_CHECKING:
    # The driver imports torch only when it runs.
    from ..inference.operators import Operator

# New objects between two collections, and how many collections of one age come before one of the
# next. They take about 100 MB.
_COLLECTED_AT_ONCE = 400_000
_OLDER_COLLECTIONS = 20, 20


def main() -> None:
    """Capture the package that the first argument describes."""
    config = channel.read_config()
    # Imports make millions of objects that live to the end.
    gc.disable()
    packages = config.get("packages") or {}
    settings = Settings(config["output"], config["card"], packages, config["package"])
    with session(settings) as recorder:
        capture = _Capture(config, recorder, LaunchTrust(recorder))
        with record_warnings() as warnings_log:
            report = capture.run()
    capture.finish(report, warnings_log)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python would take seconds to free all objects of torch and the package.
    os._exit(0)


def _skip_sleep() -> None:
    """Make `time.sleep` in this thread return at once.

    Sleeping makes nothing ready here, and a call is limited only in CPU time: a call that repeats a
    download of weights would wait for minutes.
    """
    plain_sleep = time.sleep

    def sleep(seconds: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            plain_sleep(seconds)

    time.sleep = sleep


def _import_torch(package_folders: Collection[str]) -> None:
    """Import torch with its own `typing_extensions`: a package may bring an older release.

    The module is shared from then on.
    """
    search_path = list(sys.path)
    sys.path[:] = [folder for folder in sys.path if folder not in package_folders]
    with contextlib.suppress(ImportError):
        importlib.import_module("typing_extensions")
    sys.path[:] = search_path
    importlib.import_module("torch")


class _Capture:
    """One capture of a package."""

    def __init__(
        self,
        config: Mapping[str, Any],
        recorder: Recorder,
        trust: LaunchTrust,
    ) -> None:
        self._config = config
        self._recorder = recorder
        # Flushing by time would make the order of lines depend on the machine's load, and nothing
        # is lost: the file of a killed capture is not kept.
        recorder.journal.seconds_between_counts = math.inf
        self._trust = trust
        # The present step, as it was shown last.
        self._activity = ""

    def run(self) -> dict[str, Any]:
        """Call the package's operators and return the report."""
        self._show_progress("importing torch")
        # The fake device must exist before the package is imported.
        _import_torch(self._config.get("packages") or ())

        from ..inference.plans import Recipe
        from .calls import reset_seeds
        from .modules import NotImported, load

        config = self._config
        recipe = Recipe(config.get("recipe") or {})
        _skip_sleep()
        reset_seeds()
        own_modules = config.get("own") or ()
        # Python raises ModuleNotFoundError for these.
        sys.modules.update(dict.fromkeys(config.get("fatal") or ()))
        try:
            modules, failures = load(
                config["modules"], recipe.skipped_modules, own_modules, self._show_progress
            )
        except NotImported as error:
            name, cause = error.args
            import_error = {
                "module": name,
                "type": cause.kind,
                "text": cause.text,
                "traceback": cause.trace,
            }
            return {"import_error": import_error, "modules": {}, "operators": {}}
        return self._search(modules, failures, recipe)

    def _search(self, modules: list[Any], failures: dict[str, str], recipe: Any) -> dict[str, Any]:
        from ..inference.shapes import Shapes
        from .calls import Caller
        from .entry_points import find_operators
        from .narrowing import narrow
        from .operator_search import OperatorSearch
        from .package_sizes import package_sizes
        from .real_sizes import RealSizes

        config = self._config
        self._show_progress("looking for operators and their kernels")
        operators = find_operators(modules, config["modules"])
        gc.freeze()
        # A call leaves thousands of objects, and few of them in cycles.
        gc.set_threshold(_COLLECTED_AT_ONCE, *_OLDER_COLLECTIONS)
        gc.enable()
        shapes = Shapes(recipe)
        sought: list[str] | None = None
        globs = config.get("ops") or (), config.get("kernels") or ()
        if any(globs):
            operators = narrow(operators, *globs, config["modules"])
            sought = sorted({kernel for operator in operators for kernel in operator.kernels})
        sizes = [*package_sizes(modules, config.get("checkout")), *(config.get("sizes") or ())]
        # A question about few kernels has time for all sizes.
        real_sizes = RealSizes(sizes, bool(config.get("kernels")))
        # The arguments of functions whose modules no program can import are guesses.
        guessed_modules = frozenset(failures)
        caller = Caller(shapes, recipe, self._recorder, self._trust, guessed_modules)
        search = OperatorSearch(
            operators,
            caller,
            config["dtypes"],
            config["seconds"],
            self._show_progress,
            caller.work,
            functools.partial(self._kernels_alone, real_sizes.head_sizes),
            real_sizes,
        )
        search.run()
        self._show_progress("writing the launches")
        report = {
            "modules": failures,
            "operators": search.report,
            "alone": search.report_alone,
            "late": search.late,
            "cut": search.cut,
            "refused": self._recorder.rejections,
            "untaken": caller.refusals,
        }
        if sought is not None:
            report["sought"] = sought
        return report

    def _kernels_alone(self, head_sizes: Sequence[int]) -> Iterator[Operator]:
        """Yield the kernels that the package launches and that have no launch here."""
        from .kernel_operators import kernel_operators
        from .narrowing import selected_kernels

        if self._config.get("ops"):
            # Nothing can tell that a selected function launches it.
            return iter(())
        found = self._recorder.kernels.keys() | self._recorder.rejections.keys()
        names = [name for name in self._config.get("launchable") or () if name not in found]
        globs = self._config.get("kernels") or ()
        return kernel_operators(selected_kernels(names, globs), head_sizes)

    def finish(self, report: dict[str, Any], warnings_log: WarningsLog) -> None:
        """Write the files of the capture; the report comes last."""
        # All launches are read at once, and none of their objects is garbage.
        gc.disable()
        release_warnings = [{"text": text, "by": by} for text, by in warnings_log.items()]
        report["said"] = release_warnings
        self._trust.remove_untrusted(self._config["output"])
        report["seconds"] = round(time.process_time(), 1)
        write_json(report, self._config["report"])

    def _show_progress(self, activity: str) -> None:
        path = self._config.get("progress")
        if path and activity != self._activity:
            self._activity = activity
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(activity)


def write_json(content: Mapping[str, Any], path: str) -> None:
    """Write a JSON file in one step."""
    partial = f"{path}.part"
    with open(partial, "w", encoding="utf-8") as file:
        # Triton's objects, such as those in a kernel's decorators, are written as their text.
        json.dump(content, file, indent=1, default=repr)
    os.replace(partial, path)
