"""A store of a million records: `python -m tests.benchmarks.million [--records N] [--store DIR]`.

The store holds scans of one package, each under another release and GPU, with its question and
every configuration. Measured, each in a process of its own: which of all cells have a verdict, and
the report of one run; with `--whole` also a scan that compiles nothing because all is stored.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.model import (
    Cell,
    Imported,
    Kernel,
    KeySet,
    Launch,
    Question,
    Record,
    RequestedCells,
    digest,
)
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.run import cells_to_compile
from flacheck.store import FILE, Store
from flacheck.subjects.inputs.extents import extents, of_cells
from tests import fake
from tests.benchmarks.measured import cost
from tests.made_records import PACKAGE, failure, launch, record

# The cells of one scan: kernels × launches × configurations.
KERNELS, LAUNCHES, WARPS, BLOCKS = 50, 20, (1, 2, 4, 8, 16), (32, 64)
PER_SCAN = KERNELS * LAUNCHES * len(WARPS) * len(BLOCKS)
TOOLCHAIN, TARGET = "triton==3.2.0", "sm90"
# One in so many cells fails.
FAILING = 50


def kernel(number: int) -> Kernel:
    name = f"fla.ops.made:kernel_{number}"
    return Kernel(name, PACKAGE, f"{number:064}", Imported("fla.ops.made", f"kernel_{number}"))


def records_of_scan() -> Iterator[Record]:
    for number in range(PER_SCAN):
        of = kernel(number % KERNELS)
        rest = number // KERNELS
        length, rest = rest % LAUNCHES, rest // LAUNCHES
        warps, block = WARPS[rest % len(WARPS)], BLOCKS[rest // len(WARPS)]
        made_launch = launch(BC=block, T=64 * (length + 1))
        make = failure if number % FAILING == 0 else record
        records_made = make(
            kernel=of.name,
            toolchain=TOOLCHAIN,
            target=TARGET,
            launch=made_launch,
            options={"num_warps": warps, "num_stages": 2},
        )
        cell = replace(records_made.cell, kernel=of, launch=Launch.from_json(made_launch))
        yield records_made.with_(cell=cell.with_key(records_made.key))


def key_of(scan: int, key: str) -> str:
    return digest([scan, key])


def place_of(scan: int) -> tuple[str, str]:
    return f"triton==3.2.{scan // 8}", (
        "sm70",
        "sm75",
        "sm80",
        "sm86",
        "sm89",
        "sm90",
        "sm100",
        "sm120",
    )[scan % 8]


def make_store(folder: Path, scans: int) -> None:
    """Store that many scans of the same launches, written as the store writes them, without the
    work of making each record."""
    records = list(records_of_scan())
    cells = [each.cell for each in records]
    extent = extents(of_cells(cells))[TOOLCHAIN, TARGET]
    bodies = []
    for each in records:
        bodies.append(json.dumps(each.to_json(), ensure_ascii=False, separators=(",", ":")))
    with Store.open(folder) as store:
        store.add_cells(cells)
        kernel_ids = dict(store._rows("SELECT key, kernel FROM cells"))
        for scan in range(scans):
            toolchain, target = place_of(scan)
            keys = {key_of(scan, each.key): each.kernel for each in records}
            key_set = KeySet(keys, extent=extent)
            request = RequestedCells(toolchain, target, len(keys), key_set.digest)
            question = Question(PACKAGE, asked=(request,), source=PACKAGE)
            run = store.begin_run({}, PACKAGE, {}, question=question, key_sets=[key_set])
            rows, cell_rows = [], []
            for each, body, key in zip(records, bodies, keys, strict=True):
                own = body.replace(each.key, key)
                own = own.replace(f'"{TOOLCHAIN}"', f'"{toolchain}"')
                own = own.replace(f'"target":"{TARGET}"', f'"target":"{target}"')
                rows.append((key, run, time.time(), each.verdict.value, own))
                cell_rows.append((key, kernel_ids[each.key], "compile", None))
            with store._transaction() as db:
                first = db.execute("SELECT coalesce(max(id), 0) FROM records").fetchone()[0]
                sql = "INSERT INTO records (key, run, added, verdict, body) VALUES (?, ?, ?, ?, ?)"
                db.executemany(sql, rows)
                members = ((run, first + 1 + number) for number in range(len(rows)))
                db.executemany("INSERT INTO run_records VALUES (?, ?)", members)
                db.executemany("INSERT INTO cells VALUES (?, ?, ?, ?)", cell_rows)
            store.finish_run(run)


def all_cells(folder: Path) -> list[Cell]:
    """The cells of all scans, with a key and little else."""
    with sqlite3.connect(folder / FILE) as db:
        keys = [key for (key,) in db.execute("SELECT DISTINCT key FROM records")]
    cell = record().cell
    return [replace(cell).with_key(key) for key in keys]


def decide(folder: Path) -> None:
    """Print the seconds for the cells that are left, and the peak memory."""
    cells = all_cells(folder)
    with Store.open(folder) as store:
        start, cpu_before = time.monotonic(), time.process_time()
        rest = cells_to_compile(cells, store, RunOptions())
        seconds, cpu = time.monotonic() - start, time.process_time() - cpu_before
    print(json.dumps({"left": len(rest), "seconds": seconds, "cpu": cpu, "peak_mb": peak()}))


def resume(folder: Path) -> None:
    """Print the same for a run of all cells, which compiles none of them."""
    cells = all_cells(folder)
    with Store.open(folder) as store:
        run = store.begin_run({}, "again")
        timeouts = Timeouts(60)
        pool = LocalPool(1, timeouts)
        start = time.monotonic()
        loop = Loop(fake.Provider({}), run, store, pool, timeouts)
        count = sum(1 for _ in loop.records(cells))
        seconds = time.monotonic() - start
        pool.close()
        store.remove_runs([run])
    print(json.dumps({"settled": count, "seconds": seconds, "peak_mb": peak()}))


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(part: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.million", "--part", part]
    result = subprocess.run(
        [*command, "--store", str(folder)], stdout=subprocess.PIPE, text=True, check=True
    )
    figures: dict[str, float] = json.loads(result.stdout)
    return figures


def measure(folder: Path, scans: int, is_whole: bool) -> None:
    start = time.monotonic()
    if not (folder / FILE).exists():
        make_store(folder, scans)
        print(f"{scans * PER_SCAN:,} records made in {time.monotonic() - start:.0f} s")
    size = (folder / FILE).stat().st_size / 1e9
    print(f"store of {size:.1f} GB")
    figures = in_a_process("decide", folder)
    print(f"deciding what is left: {figures['seconds']:.1f} s,", end=" ")
    print(f"{figures['cpu']:.1f} CPU s (at most 10),", end=" ")
    print(f"{figures['left']:.0f} left, {figures['peak_mb']:.0f} MB (at most 1,000)")
    with Store.open(folder) as store:
        runs = store.runs()
    for name, run in (("first", runs[0]), ("last", runs[-1])):
        command = [sys.executable, "-m", "flacheck", "report", run.id, "--store", str(folder)]
        report = cost(command)
        print(f"report of the {name} run, {PER_SCAN:,} cells: {report.wall:.1f} s,", end=" ")
        print(f"{report.cpu:.1f} CPU s (at most 5), {report.peak_mb:.0f} MB (at most 1,000)")
    if not is_whole:
        return
    figures = in_a_process("resume", folder)
    print(f"a run of which all is stored: {figures['seconds']:.1f} s,", end=" ")
    print(f"{figures['settled']:.0f} records, {figures['peak_mb']:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--whole", action="store_true", help="also read each record: minutes")
    parser.add_argument("--part", choices=["decide", "resume"])
    options = parser.parse_args()
    if options.part:
        {"decide": decide, "resume": resume}[options.part](options.store)
        return
    scans = options.records // PER_SCAN
    if options.store is not None:
        measure(options.store, scans, options.whole)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), scans, options.whole)


if __name__ == "__main__":
    main()
