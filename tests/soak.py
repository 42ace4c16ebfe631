"""Faults by the thousand against the fake toolchain: `python -m tests.soak --help`.

Four parts, each with counts and a seed: faults within worker, server and messages; kills from
outside; kill -9 of the parent; mutated inputs. Exit status 1 when anything was judged wrongly,
hung, was lost, or got away.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck.engine import executors
from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.model import Record, Verdict
from flacheck.store import Store
from tests import fake
from tests.engine.test_faults import descendants
from tests.fake.worker import ANSWERS, PACKETS
from tests.hostile import Kind

ROOT = Path(__file__).parent.parent
# Seconds that a cell may take; a batch that takes so many more hangs.
TIMEOUT, PATIENCE = 4.0, 180.0
MOMENTS = ("parse", "lower", "late")
# Signals that a compiler's own faults raise.
_OWN = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP")
_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGSTOP")
# Memory of a process that reads inputs of every kind.
MOST_MB = 500
FAILS, UNKNOWN, COMPILES = Verdict.FAILS, Verdict.UNKNOWN, Verdict.COMPILES


@dataclass(frozen=True)
class Fault:
    """A kind of fault: its process, its moment and its effect. `right` are the verdicts of a cell
    that has the fault each time."""

    process: str
    moment: str
    effect: str
    behaviour: str
    right: tuple[Verdict, ...]

    @property
    def name(self) -> tuple[str, str, str]:
        return self.process, self.moment, self.effect


def faults() -> list[Fault]:
    """Return faults of all kinds, no two alike."""
    kinds = []
    for moment in MOMENTS:
        at = f"at {moment} "
        for name in _OWN:
            kinds.append(Fault("worker", moment, name, f"{at}signal {name}", (FAILS, UNKNOWN)))
        for name in _OUTSIDE:
            kinds.append(Fault("worker", moment, name, f"{at}signal {name}", (UNKNOWN,)))
        for code in (0, 1, 3, 75, 76, 255):
            right = (UNKNOWN,) if code == 76 else (FAILS, UNKNOWN)
            kinds.append(Fault("worker", moment, f"exit {code}", f"{at}exit {code}", right))
        kinds.append(Fault("worker", moment, "socket closed", f"{at}deaf", (UNKNOWN,)))
        for name in ("SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGBUS"):
            behaviour = f"{at}server {name}"
            kinds.append(Fault("server", moment, name, behaviour, (UNKNOWN, COMPILES)))
        behaviour = f"{at}server SIGSTOP"
        kinds.append(Fault("server", moment, "SIGSTOP", behaviour, (UNKNOWN, COMPILES)))
        behaviour = f"{at}stopped"
        kinds.append(Fault("server", moment, "stopped, worker dead", behaviour, (UNKNOWN,)))
        kinds.append(Fault("compiler", moment, "spins", f"{at}spin", (UNKNOWN,)))
        kinds.append(Fault("compiler", moment, "out of memory", f"{at}bomb", (UNKNOWN,)))
        kinds.append(
            Fault("compiler", moment, "aborts", f"{at}abort x: Assertion `y' failed.", (FAILS,))
        )
        kinds.append(Fault("compiler", moment, "raises", f"{at}raise RuntimeError: x", (FAILS,)))
        kinds.append(Fault("assembler", moment, "hangs", f"{at}hang", (UNKNOWN,)))
    for packet in PACKETS:
        behaviour = f"write {packet}"
        kinds.append(Fault("message", "lower", f"packet {packet}", behaviour, (UNKNOWN, COMPILES)))
    for answer in ANSWERS:
        right = (COMPILES,) if answer == "unknown" else (UNKNOWN,)
        kinds.append(Fault("message", "answer", answer, f"answer {answer}", right))
    for start in ("broken", "hang", "spin", "stop", "die", "exit"):
        kinds.append(Fault("compiler", "import", start, f"start {start}", (UNKNOWN,)))
    assert len({kind.name for kind in kinds}) == len(kinds)
    return kinds


@dataclass
class Tally:
    """The counts of a part of the soak, and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def blame(self, what: str) -> None:
        self.counts["wrong"] += 1
        self.wrong.append(what)

    def __str__(self) -> str:
        line = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return "\n  ".join([line, *self.wrong[:20]])


def _scan(store: Store, cells: list[Any], provider: fake.Provider, jobs: int = 2) -> list[Record]:
    timeouts = Timeouts(TIMEOUT)
    pool = LocalPool(jobs, timeouts)
    loop = Loop(provider, store.begin_run({}, "soak"), store, pool, timeouts)
    try:
        return list(loop.records(cells))
    finally:
        pool.close()


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """A hang ends in TimeoutError."""

    def ring(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def inject(count: int, chance: random.Random) -> Tally:
    """Inject so many faults in batches, half of them each time and half once."""
    tally = Tally()
    kinds = faults()
    tally.counts["kinds"] = 0
    kinds_seen: set[tuple[str, str, str]] = set()
    while tally.counts["faults"] < count:
        with tempfile.TemporaryDirectory() as folder:
            batch = [
                (chance.choice(kinds), chance.random() < 0.5)
                for _ in range(min(20, count - tally.counts["faults"]))
            ]
            _batch(batch, Path(folder), tally)
        kinds_seen |= {kind.name for kind, _ in batch}
        tally.counts["kinds"] = len(kinds_seen)
    return tally


def _batch(batch: list[tuple[Fault, bool]], folder: Path, tally: Tally) -> None:
    table: dict[str, Any] = {}
    cells, right = [], {}
    for place, (kind, once) in enumerate(batch):
        name = f"k{place}"
        starts = kind.behaviour.startswith("start ")
        version = "1.0"
        if starts:
            # A compiler of its own, all of whose cells are lost.
            version = f"9.{place}"
        elif once:
            verb, moment, rest = ("at", "lower", kind.behaviour)
            if kind.behaviour.startswith("at "):
                verb, moment, rest = kind.behaviour.split(" ", 2)
            table[name] = f"{verb} {moment} once {folder / name} {rest}"
        else:
            table[name] = kind.behaviour
        verdicts_of_kind = kind.right
        if once and not starts:
            # What does not repeat is no failure, whatever it was.
            verdicts_of_kind = (COMPILES, UNKNOWN)
        cells.append(fake.cell(name, version))
        right[f"fake.{name}"] = (kind, verdicts_of_kind)
        cells.append(fake.cell(f"good{place}"))

    def kind_of(cell: Any) -> Any:
        version = cell.toolchain.partition("==")[2]
        if version == "1.0":
            return fake.kind(table, "1.0", memory_mb=512)
        start = batch[int(cell.kernel.name.removeprefix("fake.k"))][0].effect
        return fake.kind({"start": start}, version)

    with Store.open(folder / "store") as store:
        try:
            with _alarm(PATIENCE):
                records = _scan(store, cells, fake.Provider(table, kind_of))
        except TimeoutError:
            tally.counts["hung"] += 1
            tally.blame(f"hung: {[kind.name for kind, _ in batch]}")
            return
    verdicts = {record.kernel: record for record in records}
    for name, (kind, verdicts_of_kind) in right.items():
        tally.counts["faults"] += 1
        record = verdicts.get(name)
        if record is None:
            tally.blame(f"{kind.name}: no record")
        elif record.verdict not in verdicts_of_kind:
            tally.blame(
                f"{kind.name}: {record.verdict.value} ({record.reason or record.signature})"
            )
        else:
            tally.counts["right"] += 1
    for name, record in verdicts.items():
        if "good" in name and record.verdict is not COMPILES:
            tally.blame(
                f"a neighbour is {record.verdict.value}: {record.reason or record.signature}"
            )


def strike(count: int, chance: random.Random) -> Tally:
    """Send this number of signals from outside to workers and servers while they compile."""
    tally = Tally()
    names = ("SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT", "SIGBUS", "SIGHUP", "SIGSTOP")
    while tally.counts["kills"] < count:
        stop = threading.Event()
        signals: Counter[str] = Counter()

        def striking(stop: threading.Event = stop, signals: Counter[str] = signals) -> None:
            while not stop.wait(chance.uniform(0.02, 0.4)):
                pids = descendants(os.getpid())
                # A stopped process costs a whole time-out.
                name = chance.choice(names if chance.random() < 0.1 else names[:-1])
                if pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(pids), getattr(signal, name))
                        signals[name] += 1

        with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
            thread = threading.Thread(target=striking)
            thread.start()
            try:
                with _alarm(PATIENCE):
                    marks = Path(folder, "marks")
                    cells = [fake.cell("k", num_warps=n) for n in range(150)]
                    records = _scan(store, cells, fake.Provider({"k": f"count {marks}"}))
            except TimeoutError:
                tally.counts["hung"] += 1
                tally.blame("hung")
                continue
            finally:
                stop.set()
                thread.join()
        tally.counts["kills"] += sum(signals.values())
        for record in records:
            tally.counts[record.verdict.value] += 1
            if record.verdict is FAILS:
                tally.blame(f"fails: {record.signature}")
        if len(records) != len(cells):
            tally.blame(f"{len(records)} records of {len(cells)} cells")
    return tally


_PARENT = """
import sys
from pathlib import Path
from flacheck.store import Store
from tests import fake, soak
folder, marker = sys.argv[1:3]
table = {"k": f"count {folder}/marks", "slow": f"hang {marker}"}
cells = [fake.cell("k", num_warps=n) for n in range(60)]
if len(sys.argv) > 3:
    cells.insert(5, fake.cell("slow"))
with Store.open(folder) as store:
    soak._scan(store, cells, fake.Provider(table))
"""
_PROGRAM = """
import sys
from pathlib import Path
from tests.engine.test_programs import run
folder, marker = sys.argv[1:3]
script = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', " \\
    f"'import time; time.sleep(100)', '{marker}']); time.sleep(100)"
run(Path(folder), script, seconds=90)
"""


def orphan(count: int, chance: random.Random) -> Tally:
    """Kill this number of parents with kill -9: scans, and programs under a warden."""
    tally = Tally()
    while tally.counts["parents"] < count:
        with tempfile.TemporaryDirectory() as folder:
            marker = f"flacheck-soak-{os.getpid()}-{tally.counts['parents']}"
            program = chance.random() < 0.25
            for _ in range(1 if program else chance.randint(1, 4)):
                words = [_PROGRAM] if program else [_PARENT]
                words += [folder, marker, *(["x"] if chance.random() < 0.3 else [])][:3]
                parent = subprocess.Popen(
                    [sys.executable, "-c", *words], cwd=ROOT, stderr=subprocess.DEVNULL
                )
                time.sleep(chance.uniform(0.3, 3.0))
                below = descendants(parent.pid)
                parent.kill()
                parent.wait()
                tally.counts["parents"] += 1
                tally.counts["programs" if program else "scans"] += 1
                end = time.monotonic() + 5
                while any(map(_alive, below)) and time.monotonic() < end:
                    time.sleep(0.05)
                orphans = [pid for pid in below if _alive(pid)]
                for pid in orphans:
                    tally.blame(f"an orphan 5 s later: {pid}")
            if not program:
                _resume(Path(folder), marker, tally)
    return tally


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _resume(folder: Path, marker: str, tally: Tally) -> None:
    """The same scan once more, to its end: all records are there, each once."""
    subprocess.run([sys.executable, "-c", _PARENT, str(folder), marker], cwd=ROOT, check=True)
    with Store.open(folder) as store:
        keys = [record.key for record in store.records(store.run().id)]
        stored_counts = Counter(key for (key,) in store._rows("SELECT key FROM records"))
    if len(keys) != 60 or len(set(keys)) != 60:
        tally.blame(f"{len(keys)} records of 60 cells")
    repeated_keys = [key for key, times in stored_counts.items() if times > 1]
    if repeated_keys:
        tally.blame(f"{len(repeated_keys)} cells were stored twice")
    tally.counts["resumed"] += 1


def mutate(count: int, seed: int, only: Sequence[str] = ()) -> Tally:
    """Try this number of mutated inputs of every kind, or of some."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    from tests.hostile import Guard, attempt
    from tests.hostile_files import kinds
    from tests.store import test_damage

    tally = Tally()
    guard = Guard.the_guard()
    many = settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FLACHECK_CACHE_DIR"] = f"{folder}/cache"
        for name, kind in kinds().items():
            if only and name not in only:
                continue

            def one(text: str, name: str, kind: Kind) -> None:
                tally.counts[name] += 1
                wrong = attempt(kind, text, Path(folder), guard)
                if wrong:
                    tally.blame(f"{name}: {wrong.strip().splitlines()[-1][:200]} of {text[:200]!r}")

            arguments = {"text": kind.strategy, "name": st.just(name), "kind": st.just(kind)}
            seeded(seed)(many(given(**arguments)(one)))()

        @seeded(seed)
        @many
        @given(data=st.data())
        def damage(data: st.DataObject) -> None:
            tally.counts["store"] += 1
            with tempfile.TemporaryDirectory() as one:
                file = test_damage.fill(Path(one))
                rows = test_damage.rows(file)
                test_damage.write(file, *data.draw(test_damage.damages(rows)))
                try:
                    test_damage.report_all(Path(one))
                except test_damage.FlacheckError:
                    pass
                except Exception as error:
                    tally.blame(f"store: {type(error).__name__}: {str(error)[:200]}")

        if not only or "store" in only:
            damage()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    tally.counts["peak MB"] = peak_mb
    if peak_mb > MOST_MB:
        tally.blame(f"{peak_mb} MB of memory")
    return tally


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = {"faults": 1000, "kills": 1000, "parents": 200, "inputs": 2000}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="a kind of input")
    parser.add_argument("--list", action="store_true", help="list the kinds of faults")
    options = parser.parse_args(words)
    if options.list:
        for kind in faults():
            print(*kind.name, sep="  ")
        return 0
    logging.disable(logging.WARNING)
    # A compiler that is not there soon does not start.
    executors.START = 5.0
    wrong = 0
    parts = (
        ("faults", options.faults, lambda n: inject(n, random.Random(options.seed))),
        ("kills", options.kills, lambda n: strike(n, random.Random(options.seed))),
        ("parents", options.parents, lambda n: orphan(n, random.Random(options.seed))),
        ("inputs", options.inputs, lambda n: mutate(n, options.seed, options.only)),
    )
    for name, count, part in parts:
        if count:
            start = time.monotonic()
            tally = part(count)
            wrong += tally.counts["wrong"]
            print(
                f"{name}, seed {options.seed}, {time.monotonic() - start:.0f} s: {tally}",
                flush=True,
            )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
