"""`python -m tests.card LAUNCHES.jsonl [--bundle FILE.bundle]`: is a measurement true?

Runs on a machine with an NVIDIA GPU, torch and Triton. Every line of the output is one check with
its figures; the exit code is 1 if any fails.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from flacheck.capabilities.measure.measuring import document_of
from flacheck.engine.card_runner import CardRunner
from flacheck.evidence.measured.results import MeasureDocument, State
from flacheck.model import Purpose
from flacheck.pipeline.events import drain
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.measurement import bundle as bundles
from flacheck.pipeline.measurement.bundle import SCHEMA, Bundle, BundledLaunch, BundleManifest
from flacheck.pipeline.measurement.collecting import collect
from flacheck.pipeline.measurement.launches import (
    choose_largest,
    has_inferred_tensors,
    launch_configs,
    measured_launches,
)
from flacheck.pipeline.measurement.running import run_launch
from flacheck.store import Store
from flacheck.subjects.inputs import launches
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches import RecordedLaunch
from flacheck.subjects.inputs.subject import Subject
from tests.card.originals import TOOLCHAIN, Original, assemble, spoilt

CHECKS = ("twice", "times", "slow", "wrong")
PLANTED, TIMED, DTYPE = 20, 20, "bf16"
# Microseconds, and the agreement with Triton's own benchmark.
LONG, AGREEMENT = 20.0, 0.05
# A planted slowdown takes this many times as long by Triton's own benchmark.
PLANTED_RATIO = 1.25
MOST_CONFIGS = 7


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.card")
    parser.add_argument("launches", type=Path)
    parser.add_argument("--bundle", type=Path, help="run its first binaries twice, compile none")
    parser.add_argument("--only", nargs="*", default=CHECKS, choices=CHECKS)
    parser.add_argument("--budget", type=float, default=500.0, help="seconds for all checks")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        check = Check(Path(name), time.monotonic() + arguments.budget)
        with CardRunner(60.0, check.folder) as check.runner:
            print(f"{check.runner.card}, {TOOLCHAIN}", flush=True)
            if "twice" in arguments.only:
                check.same_twice(arguments.launches, arguments.bundle)
            entries = choose_largest(launches.read(arguments.launches, ours=True).launches)[0]
            check.originals(entries, arguments.only)
    return int(bool(check.failures))


class Check:
    """The checks, with the runner and a folder for binaries."""

    runner: CardRunner

    def __init__(self, folder: Path, deadline: float) -> None:
        self.folder, self._deadline = folder, deadline
        self.failures: list[str] = []

    def say(self, name: str, is_right: bool, figures: str) -> None:
        if not is_right:
            self.failures.append(name)
        print(f"{'ok  ' if is_right else 'FAIL'} {name}: {figures}", flush=True)

    def originals(self, entries: Sequence[RecordedLaunch], checks: Sequence[str]) -> None:
        """Check launches of programs that this machine's Triton can make again."""
        own = [entry for entry in entries if entry.text and not entry.made_up]
        own = [entry for entry in own if not has_inferred_tensors(entry)]
        random.Random(0).shuffle(own)
        originals = list(self._originals(own, 0.25)) if set(checks) - {"twice"} else []
        if "times" in checks:
            self.agree_with_triton(originals)
        if "slow" in checks:
            self.planted_slow(originals, 0.6)
        if "wrong" in checks:
            self.planted_wrong(originals)

    def _originals(self, entries: Sequence[RecordedLaunch], share: float) -> Iterator[Original]:
        """Yield what compiles and runs here, until a share of the time is over."""
        start = time.monotonic()
        end = start + share * (self._deadline - start)
        for entry in entries:
            if time.monotonic() > end:
                return
            config, grid = next((each for each in launch_configs(entry) if each[1]), ({}, None))
            if grid is None:
                continue
            try:
                yield Original(entry, config, grid)
            except Exception as error:
                # Not every source compiles alone; a fault would show in the next launch.
                print(f"     {entry.kernel}: {type(error).__name__}"[:200], flush=True)

    def measure(self, measured: Sequence[BundledLaunch], names: Sequence[str]) -> MeasureDocument:
        toolchains = tuple(f"{TOOLCHAIN}+{name}" for name in names)
        manifest = BundleManifest(SCHEMA, "0", "tests.card", "sm90", toolchains, tuple(measured))
        bundle = Bundle(manifest, self.folder)
        findings = [run_launch(launch, bundle.folder, self.runner, 0) for launch in measured]
        return document_of(manifest, findings, self.runner.card)

    def same_twice(self, file: Path, bundled: Path | None) -> None:
        """The same binary under two names is neither slower nor different."""
        start = time.monotonic()
        bundle = self._compiled(file) if bundled is None else bundles.read(bundled, self.folder)
        compiled = time.monotonic()
        measured = []
        for launch in bundle.manifest.launches:
            variant = next((each for each in launch.variants if each.binary is not None), None)
            if variant is None or launch.dtype != DTYPE:
                continue
            twins = []
            for name in ("a", "b"):
                toolchain = f"{TOOLCHAIN}+{name}"
                twins.append(msgspec.structs.replace(variant, toolchain=toolchain))
            measured.append(msgspec.structs.replace(launch, variants=tuple(twins)))
        document = self.measure(measured, ("a", "b"))
        states = Counter(
            each.state.value for launch in document.launches for each in launch.results
        )
        changes = [ratio for ratio in document.kernels if ratio.change != "equal"]
        spreads = sorted(launch.spread for launch in document.launches if launch.spread is not None)
        differing = states[State.DIFFERS.value] + states[State.ROUNDING.value]
        self.say(
            "the same binary twice",
            not changes and not differing and not document.wrong,
            f"{len(measured)} launches, compiled in {compiled - start:.0f} s, run in "
            f"{time.monotonic() - compiled:.0f} s, {len(changes)} changes, {differing} differ, "
            f"states {dict(states)}, spread median {statistics.median(spreads):.4f}, 95 % "
            f"{spreads[len(spreads) * 95 // 100]:.4f}, most {spreads[-1]:.4f}; "
            f"{[(each.name, each.ratio, each.spread) for each in changes]}",
        )

    def _compiled(self, file: Path) -> Bundle:
        """Return the bundle of a launches file under the installed Triton."""
        selection = Selection(toolchains=("installed",), dtypes=(DTYPE,))
        options = RunOptions(binaries=True)
        job = Job(Subject(str(file), configs="usual"), selection, options, purpose=Purpose.MEASURE)
        with Store.open(self.folder / "store") as store:
            return drain(collect(job, measured_launches(job), store, self.folder), None)

    def agree_with_triton(self, originals: Sequence[Original]) -> None:
        """The times agree with Triton's own benchmark."""
        timed = []
        for original in originals:
            document = self.measure([original.bundled(original.variant(self.folder, "a"))], ("a",))
            times = document.launches[0].results[0].times
            if times is not None and times.median > LONG:
                own = original.milliseconds() * 1_000
                timed.append((times.median / own, times.median, own, original.entry.kernel))
            if len(timed) >= TIMED:
                break
        within = [each for each in timed if abs(each[0] - 1) <= AGREEMENT]
        self.say(
            "agreement with do_bench within 5 %",
            len(within) == len(timed),
            f"{len(within)} of {len(timed)}; "
            + ", ".join(f"{each[1]:.1f}/{each[2]:.1f} µs" for each in sorted(timed))
            + f"; outside: {[each[3] for each in timed if each not in within]}",
        )

    def planted_wrong(self, originals: Sequence[Original]) -> None:
        """A changed constant, a lost barrier and a shifted store are found.

        A change counts only if a result changes: some barriers and constants have no effect on
        these inputs.
        """
        planted: dict[str, list[str]] = {}
        without_effect = 0
        for original in originals:
            if time.monotonic() > self._deadline:
                break
            good = [original.variant(self.folder, name) for name in ("a", "b")]
            for kind, ptx in spoilt(original.compiled.asm["ptx"]):
                code = assemble(ptx)
                if code is None or len(planted.get(kind, ())) >= PLANTED:
                    continue
                bad = original.variant(self.folder, "c", code)
                document = self.measure([original.bundled(*good, bad)], ("a", "b", "c"))
                *rights, result = document.launches[0].results
                if result.state is State.SAME or rights[0].state is not State.SAME:
                    without_effect += 1
                    continue
                state = "found"
                if not result.is_wrong:
                    name = original.entry.kernel.partition(":")[2]
                    state = f"{name} {result.state.value} {result.error} {result.reason}"
                planted.setdefault(kind, []).append(state)
        for kind, states in planted.items():
            found = states.count("found")
            missed = [state for state in states if state != "found"]
            self.say(f"planted {kind}", not missed, f"{found} of {len(states)} found; {missed}")
        print(f"     {without_effect} planted changes were without effect", flush=True)

    def planted_slow(self, originals: Sequence[Original], share: float) -> None:
        """Another configuration that is slower by Triton's own benchmark is found."""
        start = time.monotonic()
        end = start + share * (self._deadline - start)
        found = 0
        missed: list[tuple[str, float, float]] = []
        for original in originals:
            if found + len(missed) >= PLANTED or time.monotonic() > end:
                break
            base = original.milliseconds()
            for config, grid in list(launch_configs(original.entry))[1:MOST_CONFIGS]:
                if grid is None or base < 5e-3:
                    continue
                try:
                    slow = Original(original.entry, config, grid)
                except Exception:
                    continue
                ratio = slow.milliseconds() / base
                if ratio < PLANTED_RATIO:
                    continue
                variants = (original.variant(self.folder, "a"), slow.variant(self.folder, "b"))
                document = self.measure([original.bundled(*variants)], ("a", "b"))
                (change,) = document.kernels
                found += change.change == "slower"
                if change.change != "slower":
                    missed.append((original.entry.kernel, round(ratio, 2), change.ratio))
                break
        self.say("planted slowdowns", not missed, f"{found} of {found + len(missed)}; {missed}")


if __name__ == "__main__":
    sys.exit(main())
