"""Cells a second by the number of workers: `python -m tests.benchmarks.workers 1 4 16`.

Each number of workers compiles a shard of flacheck's own kernels whose size grows with it, so that
every run takes about as long. A run's time includes its start and its plan, which do not grow with
the workers: they cost the shortest runs the largest share. On 32 cores under Triton 3.6.0 with 80
cells a worker 16 workers were 15.6 times as fast as one, and 32 were 27.2 times as fast; with 40,
where start and plan are a larger share, 11.9 and 23.6 times. On the few cells of `flacheck scan
quick` (30 CPU seconds) 16 were 6.6 times as fast, since the start and the longest cell take most of
that time. Shards hold different cells, so that a single figure is uncertain by about a fifth.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flacheck.store import Store

MATRIX_CELLS = 6_363


def measure(workers: int, cells: int, release: str, target: str) -> tuple[int, float]:
    """Return the number of cells that a scan settled, and its seconds."""
    shards = max(MATRIX_CELLS // (workers * cells), 1)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "flacheck", "scan", "full", "--configs", "own"]
        command += ["--triton", release, "--target", target, "--shard", f"1/{shards}"]
        command += ["--store", folder, "--jobs", str(workers), "--quiet"]
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.monotonic() - started
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        with Store.open(Path(folder), create=False) as store:
            return sum(1 for _ in store.latest()), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workers", nargs="+", type=int)
    parser.add_argument("--cells", type=int, default=40, help="cells of each worker")
    parser.add_argument("--triton", default="3.6.0")
    parser.add_argument("--target", default="sm90")
    options = parser.parse_args()
    # The compiler is installed before the first measurement.
    measure(1, 1, options.triton, options.target)
    first = 0.0
    for workers in options.workers:
        cells, seconds = measure(workers, options.cells, options.triton, options.target)
        rate = cells / seconds
        first = first or rate / workers
        print(f"{workers} workers: {cells} cells in {seconds:.1f} s, {rate / first:.1f} times one")


if __name__ == "__main__":
    main()
