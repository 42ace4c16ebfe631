"""`flacheck.gate`: the pins of torch, triton and nvcc against records and advisories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import one_package, read_baseline, split, subject_of, texts
from flacheck.api.baselines import summary_of, update_baseline
from flacheck.api.options.commands import GateOptions
from flacheck.api.options.declaration import PathLike, takes
from flacheck.api.results import library_or_none
from flacheck.capabilities.gate import pins as gate_pins
from flacheck.capabilities.gate.baseline import accepted_releases
from flacheck.capabilities.gate.evidence import RecordFilter
from flacheck.capabilities.gate.fix import fix as write_changes
from flacheck.capabilities.gate.gating import (
    GateRequest,
    PinSources,
    advice_on,
    all_standings,
    judge_pins,
    plan_missing,
    releases_of,
)
from flacheck.capabilities.gate.judging import Judge
from flacheck.capabilities.gate.published_results import pinned_packages
from flacheck.capabilities.gate.result import Gate
from flacheck.errors import UsageError
from flacheck.evidence.measured.comparison import beside_first, slowdowns, stored_measurements
from flacheck.evidence.published.library import ResultsFolder
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.run import run_plan
from flacheck.store import FILE, Store
from flacheck.tables import targets
from flacheck.tables.settings import settings
from flacheck.toolchains import torch_pins, triton_releases

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(GateOptions)
def gate(
    files: Sequence[PathLike] = (),
    *,
    on_event: OnEvent | None = None,
    **options: Unpack[GateOptions],
) -> Gate:
    """Judge the releases that pins of triton, torch or nvcc allow, by stored results.

    Without `matrix` and `package` all scans count; without a scan the published results of the
    packages that the files pin.

    Args:
        files: Files with pins, one installation together; without any, the supported files of this
            folder, else the installed environment.
        **options: The options of `flacheck gate`.
        on_event: Receives each event while cells compile, and each written change.

    Raises:
        UsageError: If a file or an argument is wrong.
        EmptySelection: If nothing is pinned.
    """
    handle = on_event or ignore
    request = _request(files, options)
    scan, write_baseline = options["scan"], options["write_baseline"]
    if options["refresh"] or scan:
        for warning in triton_releases.here()[1]:
            handle(Progress(warning))
        torch_pins.refresh()
    result = judge_pins(request)
    is_about_pins = not (result.questions or options["package"] or options["matrix"])
    if request.library is not None and is_about_pins:
        request = _with_pinned_packages(request, request.library, handle)
        result = judge_pins(request)
    if scan and result.gaps:
        _compile(request, result.gaps, options["jobs"], on_event)
        result = judge_pins(request)
    if options["fix"] and _fix(result, handle):
        result = judge_pins(request)
    if write_baseline is not None:
        # Typed pins narrow the answer for one call; those of the files stay accepted.
        accepted: list[str] = []
        if not request.pin_sources.option_pins:
            accepted = accepted_releases(result)
        # All that the store holds: a part would replace the whole.
        new = update_baseline(write_baseline, all_standings(request), accepted)
        handle(Progress(summary_of(write_baseline, new)))
    return result


def _request(files: Sequence[PathLike], options: GateOptions) -> GateRequest:
    """Return what to judge, and by which records."""
    if options["installed"] and (files or options["fix"]):
        raise UsageError("--installed judges the installed environment: leave out FILES and --fix")
    known_failures = read_baseline(options["baseline"], options["write_baseline"])
    names = tuple(targets.find(name).name for name in split(options["target"]))
    about = subject_of(options["matrix"], one_package(options["package"], "gate"))
    pins = {"triton": list(texts(options["triton"])), "torch": list(texts(options["torch"]))}
    typed_pins = gate_pins.parse_pin_options(
        {name: values for name, values in pins.items() if values}
    )
    compiler_choice, compiler_pins = gate_pins.compiler_pins(texts(options["toolchain"]))
    pin_sources = PinSources(
        tuple(map(Path, files)), options["installed"], (*typed_pins, *compiler_pins)
    )
    # Without --toolchain the files decide: Triton where they pin it, or torch, which brings it.
    compiler = compiler_choice or gate_pins.pinned_compiler(pin_sources.installations())
    judge = Judge(
        releases=releases_of(compiler),
        advise=advice_on(compiler),
        targets=names,
        waivers=settings.waivers(Path.cwd()),
        today=date.today(),
        strict=options["strict"],
        find_slowdowns=_slowdowns(options["max_slowdown"], Path(options["store"]), about.package),
    )
    kernels, ops = split(options["kernel"]), split(options["op"])
    record_filter = RecordFilter(about.matrix, about.package, kernels, names, ops, compiler)
    request = GateRequest(judge, pin_sources, record_filter, Path(options["store"]))
    if options["baseline"] is not None:
        file = Path(options["baseline"])
        request = replace(request, baseline=known_failures, baseline_file=file)
    if not (options["no_published"] or options["scan"]):
        request = replace(request, library=library_or_none(options["results"]))
    return request


def _slowdowns(
    most: float | None, folder: Path, package: str | None
) -> Callable[[str], Sequence[str]]:
    """Return the lookup of what is too slow under a Triton release, by stored measurements.

    Raises:
        UsageError: If the ratio allows nothing, or nothing was measured.
    """
    if most is None:
        return lambda release: ()
    if not most >= 1:
        raise UsageError(f"--max-slowdown {most:g}: expected a ratio of at least 1")
    documents = []
    if (folder / FILE).is_file():
        with Store.open(folder, create=False) as store:
            documents = stored_measurements(store)
    if not documents:
        raise UsageError("--max-slowdown: nothing was measured: run `flacheck measure` first")

    def find_slowdowns(release: str) -> Sequence[str]:
        return slowdowns(beside_first(documents, f"triton=={release}", package), most)

    return find_slowdowns


def _with_pinned_packages(
    request: GateRequest, library: ResultsFolder, handle: OnEvent
) -> GateRequest:
    """Return the request to judge by the published results of the packages that are pinned."""
    packages = [about for about in library.abouts if "==" in about]
    names = dict.fromkeys(about.partition("==")[0] for about in packages)
    packages_with_results = pinned_packages(library, request.pin_sources.packages(names))
    for note in packages_with_results.notes:
        handle(Progress(note))
    if not (packages_with_results.pins or packages_with_results.notes):
        handle(
            Progress(
                "no scan decides: --package NAME==VERSION judges by published results; there are "
                f"{', '.join(names)}"
            )
        )
    return replace(request, pinned_packages=packages_with_results)


def _compile(
    request: GateRequest, releases: Sequence[str], jobs: int, on_event: OnEvent | None
) -> None:
    """Compile the cells of these releases that lack a record."""
    plan = plan_missing(request, releases)
    for warning in plan.warnings:
        (on_event or ignore)(Progress(warning))
    with Store.open(request.store) as open_store:
        drain(run_plan(plan, open_store, RunOptions(jobs=jobs)), on_event)


def _fix(result: Gate, handle: OnEvent) -> bool:
    """Write the suggested changes; return True if there was any."""
    changes, unchanged = write_changes(result.suggest)
    for change in changes:
        pin = change.pin
        handle(Progress(f"{pin.where}: {pin.requirement} is now {pin.name}{change.to}"))
    for change in unchanged:
        pin = change.pin
        handle(Progress(f"{pin.where}: {pin.requirement} was left as it is ({pin.obstacle})"))
    return bool(changes)
