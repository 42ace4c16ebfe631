"""The judgement of pins by the files and the store as they are now."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flacheck.capabilities.gate import evidence, sources
from flacheck.capabilities.gate.admission import Releases
from flacheck.capabilities.gate.baseline import with_baseline
from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.capabilities.gate.evidence import RecordFilter
from flacheck.capabilities.gate.judging import Advise, Judge
from flacheck.capabilities.gate.pins import Installation, Pin
from flacheck.capabilities.gate.published_results import (
    PinnedPackages,
    published_subject,
    with_published,
)
from flacheck.capabilities.gate.result import Gate
from flacheck.capabilities.gate.sources import package_pins
from flacheck.capabilities.gate.sources.package_pins import PackagePin
from flacheck.errors import EmptySelection
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.published.library import ResultsFolder
from flacheck.pipeline.plan import Plan
from flacheck.tables import advisories
from flacheck.toolchains import nvcc_releases, torch_pins, triton_releases
from flacheck.version import __version__

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PinSources:
    """The places to read pins from.

    Without `files` the `installed` environment is read if that is set, else the supported files of
    this folder. `option_pins` come from the command line and are added to each installation.
    """

    files: tuple[Path, ...] = ()
    installed: bool = False
    option_pins: tuple[Pin, ...] = ()

    def installations(self) -> list[Installation]:
        """Return the installations with their pins of any compiler.

        Raises:
            EmptySelection: If nothing is pinned.
        """
        if self.files:
            installations = sources.of_files(self.files)
        elif self.installed:
            installations = sources.read_installed()
        else:
            installations = sources.in_folder(Path.cwd())
            if not installations and self.option_pins:
                return [Installation("the command line", self.option_pins)]
            if not installations:
                _LOG.warning("no file here pins torch or triton: looking at the live environment")
                installations = sources.read_installed()
        if not installations:
            where = ", ".join(map(str, self.files)) or "the live environment"
            why = "neither torch nor triton is pinned there; name a file that does"
            raise EmptySelection(f"{where}: {why}")
        with_options = []
        for installation in installations:
            pins = (*installation.pins, *self.option_pins)
            with_options.append(replace(installation, pins=pins))
        return with_options

    def packages(self, names: Collection[str]) -> list[PackagePin]:
        """Return the packages of these names that are pinned beside torch and Triton."""
        if self.files:
            return sources.packages_of(self.files, names)
        files = [] if self.installed else sources.files_in(Path.cwd())
        if files or self.option_pins:
            return sources.packages_of(files, names)
        return list(package_pins.installed(names))

    def of(self, compiler: GatedCompiler) -> list[Installation]:
        """Return the installations that pin a compiler, each with its pins of that compiler.

        Raises:
            EmptySelection: If no installation pins the compiler.
        """
        installations = []
        for installation in self.installations():
            about_compiler = installation.about(compiler)
            if about_compiler.pins:
                installations.append(about_compiler)
        if not installations:
            raise EmptySelection(
                f"nothing here pins {compiler.spoken}: pin {compiler.distribution} in a file, or "
                f"name releases with --toolchain '{compiler.family}>=X'"
            )
        return installations


@dataclass(frozen=True)
class GateRequest:
    """The pins to judge, and the records in a store that `record_filter` selects.

    The `baseline`, read from `baseline_file`, is used where the store is incomplete, and published
    results, of the folder `library`, where both are. Without a package or matrix, the published
    results of the `pinned_packages` are used.
    """

    judge: Judge
    pin_sources: PinSources
    record_filter: RecordFilter
    store: Path
    baseline: Baseline | None = None
    baseline_file: Path | None = None
    library: ResultsFolder | None = None
    pinned_packages: PinnedPackages = field(default_factory=PinnedPackages)


def judge_pins(request: GateRequest) -> Gate:
    """Read the pins and the store as they are now, and return the judgement."""
    judge, record_filter = request.judge, request.record_filter
    about = record_filter.about
    abouts = published_subject(record_filter)
    if request.pinned_packages.pins:
        about, abouts = request.pinned_packages.names, request.pinned_packages.abouts
    installations = request.pin_sources.of(judge.releases.compiler)
    with evidence.open_evidence(request.store, record_filter) as current:
        if request.baseline and request.baseline_file:
            file = str(request.baseline_file)
            current = with_baseline(current, request.baseline, record_filter, file, __version__)
        if request.library is not None:
            current, notes = with_published(current, request.library, record_filter, abouts)
            for note in notes:
                _LOG.warning(f"not answered by published results: {note}")
        return judge.judge(installations, current, about)


def plan_missing(request: GateRequest, releases: Sequence[str]) -> Plan:
    """Return the plan of the scan that is missing for these releases."""
    with evidence.open_evidence(request.store, request.record_filter) as current:
        question = request.record_filter.of_only_question(current.standings)
    return question.plan(releases)


def all_standings(request: GateRequest) -> Sequence[Standing]:
    """Return the standings of every kernel, target and operator of the subject."""
    whole = replace(request.record_filter, kernels=(), targets=(), ops=())
    with evidence.open_evidence(request.store, whole) as current:
        return current.standings


def releases_of(compiler: GatedCompiler) -> Releases:
    """Return the releases of a compiler; of nvcc only the newest patch release of each minor."""
    if compiler is TRITON:
        return Releases(tuple(triton_releases.known_releases()), torch_pins.pins())
    newest = nvcc_releases.newest_of_minors(nvcc_releases.shipped_versions())
    return Releases(tuple(map(str, newest)), {}, compiler)


def advice_on(compiler: GatedCompiler) -> Advise:
    """Return the lookup of advisories for a compiler; all advisories are about Triton."""
    if compiler is TRITON:
        return advisories.of
    return lambda *arguments: ()
