"""flacheck: know what a compiler upgrade will break before anyone upgrades.

>>> import flacheck
>>> flacheck.explain("FC302").findings[0].title
'an assertion about linear layouts failed in the compiler'

The functions and values of `__all__` are the public API; everything else may change.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from flacheck.errors import (
    EmptySelection,
    Exit,
    FlacheckError,
    IncompleteError,
    Interrupted,
    Terminated,
    ToolchainError,
    UsageError,
    unsupported_system,
)
from flacheck.version import __version__ as __version__

if TYPE_CHECKING:
    from flacheck.api.autotune import Autotuning as Autotuning
    from flacheck.api.autotune import autotune as autotune
    from flacheck.api.baselines import update_baseline as update_baseline
    from flacheck.api.bench import bench as bench
    from flacheck.api.bisect import bisect as bisect
    from flacheck.api.capture import Capture as Capture
    from flacheck.api.capture import capture as capture
    from flacheck.api.check import check as check
    from flacheck.api.diff import diff as diff
    from flacheck.api.doctor import doctor as doctor
    from flacheck.api.dtypes import dtypes as dtypes
    from flacheck.api.explain import Explained as Explained
    from flacheck.api.explain import explain as explain
    from flacheck.api.gate import gate as gate
    from flacheck.api.housekeeping import clean_cache as clean_cache
    from flacheck.api.housekeeping import describe_runs as describe_runs
    from flacheck.api.housekeeping import list_cache as list_cache
    from flacheck.api.housekeeping import prune_cache as prune_cache
    from flacheck.api.housekeeping import remove_runs as remove_runs
    from flacheck.api.init import Initialized as Initialized
    from flacheck.api.init import init as init
    from flacheck.api.known_results import known as known
    from flacheck.api.lists import list_advisories as list_advisories
    from flacheck.api.lists import list_kernels as list_kernels
    from flacheck.api.lists import list_matrices as list_matrices
    from flacheck.api.lists import list_rules as list_rules
    from flacheck.api.lists import list_schemas as list_schemas
    from flacheck.api.lists import list_targets as list_targets
    from flacheck.api.lists import schema as schema
    from flacheck.api.measure import Measurement as Measurement
    from flacheck.api.measure import measure as measure
    from flacheck.api.reports import list_runs as list_runs
    from flacheck.api.reports import merge as merge
    from flacheck.api.reports import report as report
    from flacheck.api.repro import repro as repro
    from flacheck.api.results import build_results as build_results
    from flacheck.api.results import results_site as results_site
    from flacheck.api.results import update_results as update_results
    from flacheck.api.results import verify_results as verify_results
    from flacheck.api.runs import Failure as Failure
    from flacheck.api.runs import Run as Run
    from flacheck.api.scan import plan_scan as plan_scan
    from flacheck.api.scan import scan as scan
    from flacheck.api.toolchains import install_toolchains as install_toolchains
    from flacheck.api.toolchains import list_toolchains as list_toolchains
    from flacheck.api.toolchains import package_index as package_index
    from flacheck.api.toolchains import remove_toolchains as remove_toolchains
    from flacheck.capabilities.bench.results import FormsCompared as FormsCompared
    from flacheck.capabilities.bisect.history import Bisection as Bisection
    from flacheck.capabilities.check.document import Checked as Checked
    from flacheck.capabilities.diff.result import Comparison as Comparison
    from flacheck.capabilities.dtypes.result import DtypesResult as DtypesResult
    from flacheck.capabilities.gate.pins import Pin as Pin
    from flacheck.capabilities.gate.result import Gate as Gate
    from flacheck.capabilities.known_results.document import Known as Known
    from flacheck.capabilities.repro.output.result import Reproduced as Reproduced
    from flacheck.capabilities.results.verifying import Verification as Verification
    from flacheck.model import Cell as Cell
    from flacheck.model import Record as Record
    from flacheck.pipeline.events import Event as Event
    from flacheck.pipeline.events import Progress as Progress
    from flacheck.pipeline.events import RecordSettled as RecordSettled
    from flacheck.pipeline.events import RunFinished as RunFinished
    from flacheck.pipeline.events import RunStarted as RunStarted

# The module of each public name. They are imported on first use: `import flacheck` is quick, and
# needs neither Triton nor torch.
_MODULES = {
    "Autotuning": "api.autotune",
    "Bisection": "capabilities.bisect.history",
    "Capture": "api.capture",
    "Cell": "model",
    "Checked": "capabilities.check.document",
    "Comparison": "capabilities.diff.result",
    "DtypesResult": "capabilities.dtypes.result",
    "Event": "pipeline.events",
    "Explained": "api.explain",
    "Failure": "api.runs",
    "FormsCompared": "capabilities.bench.results",
    "Gate": "capabilities.gate.result",
    "Initialized": "api.init",
    "Known": "capabilities.known_results.document",
    "Measurement": "api.measure",
    "Pin": "capabilities.gate.pins",
    "Progress": "pipeline.events",
    "Record": "model",
    "RecordSettled": "pipeline.events",
    "Reproduced": "capabilities.repro.output.result",
    "Run": "api.runs",
    "RunFinished": "pipeline.events",
    "RunStarted": "pipeline.events",
    "Verification": "capabilities.results.verifying",
    "autotune": "api.autotune",
    "bench": "api.bench",
    "bisect": "api.bisect",
    "build_results": "api.results",
    "capture": "api.capture",
    "check": "api.check",
    "clean_cache": "api.housekeeping",
    "describe_runs": "api.housekeeping",
    "diff": "api.diff",
    "doctor": "api.doctor",
    "dtypes": "api.dtypes",
    "explain": "api.explain",
    "gate": "api.gate",
    "init": "api.init",
    "install_toolchains": "api.toolchains",
    "known": "api.known_results",
    "list_advisories": "api.lists",
    "list_cache": "api.housekeeping",
    "list_kernels": "api.lists",
    "list_matrices": "api.lists",
    "list_rules": "api.lists",
    "list_runs": "api.reports",
    "list_schemas": "api.lists",
    "list_targets": "api.lists",
    "list_toolchains": "api.toolchains",
    "measure": "api.measure",
    "merge": "api.reports",
    "package_index": "api.toolchains",
    "plan_scan": "api.scan",
    "prune_cache": "api.housekeeping",
    "remove_runs": "api.housekeeping",
    "remove_toolchains": "api.toolchains",
    "report": "api.reports",
    "repro": "api.repro",
    "results_site": "api.results",
    "scan": "api.scan",
    "schema": "api.lists",
    "update_baseline": "api.baselines",
    "update_results": "api.results",
    "verify_results": "api.results",
}

__all__ = [
    "EmptySelection",
    "Exit",
    "FlacheckError",
    "IncompleteError",
    "Interrupted",
    "Terminated",
    "ToolchainError",
    "UsageError",
    *_MODULES,
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'flacheck' has no attribute {name!r}")
    problem = unsupported_system(sys.platform)
    if problem is not None:
        raise IncompleteError(problem)
    value = getattr(import_module(f"flacheck.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
