"""Compilers whose binaries run on this machine's GPU: the oracle of a wrong result."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import convert, structs

from flacheck.capabilities.repro.compilers import Compilers
from flacheck.engine import judge
from flacheck.engine.card_runner import CardRunner
from flacheck.evidence.measured.results import CardFacts, LaunchResult, State
from flacheck.model import Cell, Json, Outcome, Record, Verdict
from flacheck.model.wire import to_plain
from flacheck.pipeline.measurement.bundle import BundledLaunch
from flacheck.pipeline.measurement.collecting import lay_binary
from flacheck.pipeline.measurement.judging import judge_launch
from flacheck.pipeline.measurement.running import run_launch
from flacheck.pipeline.measurement.wrong_results import WrongLaunch, wrong_record


@dataclass(kw_only=True)
class CardCompilers(Compilers):
    """Releases whose records say, too, if a binary computes what the right release's computes.

    Both binaries run on the inputs of the launch that showed the wrong result. Files of the runner
    are written into `folder`.
    """

    wrong: WrongLaunch
    runner: CardRunner
    folder: Path
    _binaries: dict[str, tuple[Record, Json | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def judge_cell(self, cell: Cell) -> Record:
        """Return the record of a cell: a failure also if its result is wrong."""
        record, own = self._compile_binary(cell)
        right_release = self.wrong.launch.variants[0].toolchain
        if own is None or cell.toolchain == right_release:
            return record
        right_record, right = self._compile_binary(replace(cell, toolchain=right_release))
        if right is None:
            reason = right_record.reason or right_record.code
            return judge.without_verdict(record, f"no binary of {right_release}: {reason}")
        if own["digest"] == right["digest"]:
            return record
        # There is one runner, and releases compile in parallel.
        with self._lock:
            return self._compare(record, right, own)

    def _compile_binary(self, cell: Cell) -> tuple[Record, Json | None]:
        """Return a cell's record, and its binary if it can be launched."""
        if cell.key not in self._binaries:
            attempt = self.ask(cell, binary=True)
            if attempt.outcome is Outcome.TIMED_OUT:
                self.budget.check()
            record = judge.judge(cell, attempt)
            binary = attempt.facts.get("binary")
            if binary and (binary["unlaunchable"] or record.verdict is not Verdict.COMPILES):
                binary = None
            self._binaries[cell.key] = (record, binary)
        return self._binaries[cell.key]

    def _facts(self, measured: LaunchResult, launch: BundledLaunch) -> Json:
        """Return the inputs and the differing elements, with which a script shows the failure."""
        disagreement = measured.disagreement
        return {
            "grid": list(launch.variants[-1].grid),
            "storages": list(launch.storages),
            "tensors": to_plain(launch.tensors),
            "seed": self.wrong.seed,
            "distribution": measured.distribution,
            "tolerance": disagreement.tolerance if disagreement else 0.0,
            "samples": to_plain(disagreement.samples) if disagreement else {},
            "right_group": measured.results[0].group,
        }

    def _compare(self, record: Record, right: Json, own: Json) -> Record:
        """Return the record with the verdict of the runner."""
        variants = []
        for variant, entry in zip(self.wrong.launch.variants, (right, own)):
            binary = lay_binary(entry, self.folder)
            variants.append(structs.replace(variant, binary=binary, key=record.key))
        try:
            launch = structs.replace(self.wrong.launch, variants=tuple(variants))
        except ValueError as error:
            # A pass renamed a pointer, so its memory is not in the launch.
            return judge.without_verdict(record, str(error))
        seed = self.wrong.seed
        findings = run_launch(launch, self.folder, self.runner, seed, times=False)
        measured = judge_launch(launch, findings.facts, findings.deaths, seed)
        _, result = measured.results
        if result.is_wrong:
            card = convert(self.runner.card, CardFacts)
            return wrong_record(record, result, card, **self._facts(measured, launch))
        if result.state in (State.SAME, State.ROUNDING):
            return record
        return judge.without_verdict(record, result.reason or result.state.value)
