"""Reuse of a capture under this release if every recorded query has the same result here.

Compared are the results of API queries, the kernels' decorators, the options that launches may
name, and which arguments Triton's front end accepts and why it refuses others. All of them were
written when the capture was made, so `main` needs neither torch nor the package, whose imports
take most of the time of a small capture.

`main` runs with one argument, a JSON object: `earlier` (captures under other releases, each
{"asked", "launches", "report"}), `card`, `scratch` (a folder), `output`, `report` and `asked` (the
files to write), and `progress` (a file for the current activity, if it is shown). It writes nothing
if no capture can be reused.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from types import ModuleType
from typing import Any

from ..engine import channel, releases, vendor_libraries
from ..engine.driver import TargetDriver
from ..engine.loader import module_from
from ..recorder import frontend, refusals
from ..recorder.launch_description import Identities
from ..recorder.recorder import Recorder
from ..workers import torch_stub, values
from . import kernel_decorators, triton_api_trace
from .frontend_queries import FrontendQueries
from .triton_api_trace import TritonApiTrace


class ImportState:
    """The state of a package right after its import, and the trace for other releases."""

    def __init__(
        self,
        trace: TritonApiTrace,
        modules: Iterable[ModuleType],
        import_failures: Mapping[str, str],
        packages: Mapping[str, str],
    ) -> None:
        trace.importing = False
        self._trace = trace
        self._import_failures = import_failures
        self._identities = Identities(packages)
        self._kernels = kernel_decorators.describe_kernels(modules, self._identities)

    def reuse_record(
        self,
        recorder: Recorder,
        queries: FrontendQueries,
        release_warnings: Iterable[Mapping[str, str]],
        certain_kernels: Collection[str],
    ) -> dict[str, Any]:
        """Return the record that other releases compare with.

        `bound` is the reason why the capture is valid under its own release only, else None.
        `certain_kernels` are those with a launch that the package makes as documented.
        """
        self._add_late_modules(recorder.kernels)
        questions = queries.needed(certain_kernels)
        needed_sources = {query["source"] for query in questions}
        sources = {key: text for key, text in queries.sources.items() if key in needed_sources}
        return {
            "bound": self._bound_reason(recorder, queries, release_warnings),
            "answers": self._trace.results,
            "places": {query: list(places) for query, places in self._trace.places.items()},
            "kinds": self._trace.kinds,
            "kernels": self._kernels,
            "options": refusals.option_queries,
            "sources": sources,
            "questions": questions,
        }

    def _add_late_modules(self, recorded_kernels: Iterable[str]) -> None:
        """Describe kernels of modules that a call imported, or that are another package's."""
        known_names = {kernel["name"] for kernel in self._kernels.values()}
        late_modules = {}
        for name in recorded_kernels:
            module = name.partition(":")[0]
            if name not in known_names and module in sys.modules:
                late_modules[module] = sys.modules[module]
        late_kernels = kernel_decorators.describe_kernels(late_modules.values(), self._identities)
        for variable, kernel in late_kernels.items():
            self._kernels.setdefault(variable, kernel)

    def _bound_reason(
        self,
        recorder: Recorder,
        queries: FrontendQueries,
        release_warnings: Iterable[Mapping[str, str]],
    ) -> str | None:
        """Return why the capture is valid under its own release only, else None."""
        triton_folder = os.path.dirname(sys.modules["triton"].__file__ or "")
        release = sys.modules["triton"].__version__
        for warning in release_warnings:
            # What a package warns of depends on its reads, which are compared.
            if release in warning["text"].replace(triton_folder, ""):
                return f"the package writes of Triton {release}"
        module_kernels = {kernel["name"] for kernel in self._kernels.values()}
        dynamic_kernels = sorted(recorder.kernels.keys() - module_kernels)
        if dynamic_kernels:
            return f"a call defined kernels: {', '.join(dynamic_kernels)}"
        results = self._trace.results.items()
        incomparable = [query for query, result in results if not result]
        if incomparable:
            return f"these reads cannot be compared: {', '.join(incomparable)}"
        if self._trace.ambiguous:
            return f"two results of {', '.join(sorted(self._trace.ambiguous))}"
        for message in self._import_failures.values():
            if triton_folder in message:
                return "a module failed inside Triton"
        if queries.unwritten:
            return f"the front end's check cannot be repeated: {queries.unwritten}"
        return None


def main() -> None:
    """Write the first capture that can be reused under this release."""
    config = channel.read_config()
    # The front end makes millions of small objects, and the process is short.
    gc.disable()
    release = _CurrentRelease(config["card"], config["scratch"], config.get("progress"))
    for capture in config["earlier"]:
        if _run_in_child(functools.partial(_reuse, release, capture, config)):
            return


def _run_in_child(work: Callable[[], bool]) -> bool:
    """Return the result of `work`; its imports of Triton's modules end with the child."""
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        exit_code = 1
        try:
            if work():
                exit_code = 0
        finally:
            sys.stderr.flush()
            os._exit(exit_code)
    _, status = os.waitpid(child, 0)
    return status == 0


def _reuse(release: _CurrentRelease, capture: Mapping[str, str], config: Mapping[str, str]) -> bool:
    """Write a capture for this release, or print why it cannot be reused."""
    with open(capture["asked"], encoding="utf-8") as file:
        record = json.load(file)
    try:
        reason = release.first_difference(record)
    except Exception as error:
        # A release may refuse to read or decorate a kernel with any exception.
        reason = f"{type(error).__name__}: {error}"
    if reason is not None:
        print(f"{capture['launches']} cannot be reused here: {reason}", file=sys.stderr)
        return False
    _write_capture(capture, config)
    return True


class _CurrentRelease:
    """The release of Triton on the path, set up as for a capture but without torch."""

    def __init__(self, card: Mapping[str, Any], scratch: str, progress: str | None = None) -> None:
        self._scratch = scratch
        self._progress = progress
        driver = TargetDriver()
        driver.select({**card})
        torch_stub.install(driver)
        import triton  # noqa: F401 the next lines patch parts of it

        releases.install_driver(driver)
        releases.time_once()
        vendor_libraries.leave_out_blas()
        frontend.set_up()

    def first_difference(self, record: Mapping[str, Any]) -> str | None:
        """Return why a capture cannot be reused here, else None; cheap comparisons come first."""
        if record["bound"]:
            return f"it is valid under its own release only: {record['bound']}"
        self._show("comparing Triton's API with that of an earlier capture")
        query = triton_api_trace.first_difference(
            record["answers"], record["places"], record["kinds"]
        )
        if query is not None:
            return f"{query} differs"
        for name, is_option in record["options"].items():
            if refusals.is_option(name) != is_option:
                return f"{name} is an option of one of the releases only"
        self._show(f"comparing the decorators of {len(record['kernels'])} kernels")
        kernel = kernel_decorators.first_difference(record["kernels"], self._scratch)
        if kernel is not None:
            return f"the decorators of {kernel} have another result"
        return self._frontend_difference(record)

    def _frontend_difference(self, record: Mapping[str, Any]) -> str | None:
        """Return the first kernel for which the front end's result differs, else None."""
        from triton.runtime.jit import JITFunction

        modules = {}
        for digest, text in record["sources"].items():
            modules[digest] = self._load_source(digest, text)
        for number, query in enumerate(record["questions"], 1):
            total = len(record["questions"])
            self._show(f"repeating check {number} of {total} by the front end: {query['kernel']}")
            names = vars(modules[query["source"]])
            arguments = values.arguments(query["args"], names)
            function = names[query["kernel"]]
            error = releases.front_end_error(JITFunction.run, function, arguments)
            refusal = frontend.comparable_error(frontend.argument_error(error))
            if refusal != query["refusal"]:
                return f"the front end has another result for {query['kernel']}"
        return None

    def _show(self, activity: str) -> None:
        if self._progress:
            with open(self._progress, "w", encoding="utf-8") as file:
                file.write(activity)

    def _load_source(self, digest: str, text: str) -> ModuleType:
        name = f"asked_{digest}"
        path = os.path.join(self._scratch, f"{name}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return module_from(path, name)


def _write_capture(capture: Mapping[str, str], config: Mapping[str, str]) -> None:
    """Write a capture with this release in its header; its report comes last and marks the end."""
    with open(capture["launches"], encoding="utf-8") as source:
        header = json.loads(source.readline())
        release: str = header["triton"]
        header["triton"] = sys.modules["triton"].__version__
        with open(config["output"], "w", encoding="utf-8") as output:
            output.write(json.dumps(header, ensure_ascii=False) + "\n")
            shutil.copyfileobj(source, output)
    shutil.copyfile(capture["asked"], config["asked"])
    with open(capture["report"], encoding="utf-8") as file:
        report: dict[str, Any] = json.load(file)
    report.setdefault("like", release)
    partial = f"{config['report']}.part"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    os.replace(partial, config["report"])
