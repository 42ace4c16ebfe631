"""A judgement as one sitting: pins and results are read anew after every scan and change."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.analysis.standing import Standing
from flacheck.baseline.form import Baseline
from flacheck.capabilities.gate import evidence, sources
from flacheck.capabilities.gate.admission import Releases
from flacheck.capabilities.gate.baseline import with_baseline
from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.capabilities.gate.evidence import RecordFilter
from flacheck.capabilities.gate.judging import Advise, Judge
from flacheck.capabilities.gate.pins import Installation, Pin
from flacheck.capabilities.gate.result import Gate
from flacheck.errors import EmptySelection
from flacheck.pipeline.plan import Plan
from flacheck.tables import advisories
from flacheck.toolchains import nvcc_releases, torch_pins, triton_releases
from flacheck.version import __version__

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PinSources:
    """Where pins stand: in files, in the `installed` environment, or in what this folder holds;
    `option_pins` are those of the command line, which go with each."""

    files: tuple[Path, ...] = ()
    installed: bool = False
    option_pins: tuple[Pin, ...] = ()

    def installations(self) -> list[Installation]:
        """What is held to pins of any compiler; EmptySelection when there is none."""
        if self.files:
            judged = sources.of_files(self.files)
        elif self.installed:
            judged = sources.installed()
        else:
            judged = sources.in_folder(Path.cwd())
            if not judged and self.option_pins:
                return [Installation("the command line", self.option_pins)]
            if not judged:
                _LOG.warning("no file here pins torch or triton: looking at the live environment")
                judged = sources.installed()
        if not judged:
            where = ", ".join(map(str, self.files)) or "the live environment"
            why = "neither torch nor triton is pinned there; name a file that does"
            raise EmptySelection(f"{where}: {why}")
        return [replace(each, pins=(*each.pins, *self.option_pins)) for each in judged]

    def of(self, compiler: GatedCompiler) -> list[Installation]:
        """The installations with their pins of a compiler; EmptySelection where there is none."""
        about = [installation.about(compiler) for installation in self.installations()]
        held = [installation for installation in about if installation.pins]
        if not held:
            raise EmptySelection(
                f"nothing here pins {compiler.spoken}: pin {compiler.distribution} in a file, or "
                f"name releases with --toolchain '{compiler.family}>=X'"
            )
        return held


@dataclass(frozen=True)
class Gating:
    """One judgement of pins, by a store and what a baseline knows beside it. `wanted` are the
    records that count; `file` is the baseline's."""

    gate: Judge
    pin_sources: PinSources
    wanted: RecordFilter
    store: Path
    known: Baseline | None = None
    file: Path | None = None

    def beside(self, known: Baseline | None, file: Path | None) -> "Gating":
        """Return the same judgement with what a baseline file holds."""
        return replace(self, known=known, file=file)

    def result(self) -> Gate:
        """The judgement by what the files and the store hold now."""
        installations = self.pin_sources.of(self.gate.releases.compiler)
        with evidence.open_evidence(self.store, self.wanted) as held:
            if self.known and self.file:
                held = with_baseline(held, self.known, self.wanted, str(self.file), __version__)
            return self.gate.judge(installations, held, self.wanted.about)

    def plan(self, releases: Sequence[str]) -> Plan:
        """What is to be compiled for a record of these releases."""
        with evidence.open_evidence(self.store, self.wanted) as held:
            asked = self.wanted.of_only_question(held.standings)
        return asked.plan(releases)

    def standings(self) -> Sequence[Standing]:
        """All that the store knows of what the gate is about, without a selection."""
        whole = replace(self.wanted, kernels=(), targets=(), ops=())
        with evidence.open_evidence(self.store, whole) as held:
            return held.standings


def releases_of(compiler: GatedCompiler) -> Releases:
    """What there is of a compiler; of CUDA toolkits the newest patch release of each minor."""
    if compiler is TRITON:
        return Releases(tuple(triton_releases.known_releases()), torch_pins.pins())
    newest = nvcc_releases.newest_of_minors(nvcc_releases.shipped_versions())
    return Releases(tuple(map(str, newest)), {}, compiler)


def advice_on(compiler: GatedCompiler) -> Advise:
    """Advisories are about releases of Triton."""
    if compiler is TRITON:
        return advisories.of
    return lambda *asked: ()
