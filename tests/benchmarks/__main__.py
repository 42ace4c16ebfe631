"""Prints what flacheck costs.

`python -m tests.benchmarks [overhead] [crashes]`

CPU seconds are those of all processes together; each ratio compares two things of one run, because
machines are noisy and shared. Nothing here asserts: read the figures.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from flacheck import toolchains
from flacheck.engine.loop import request
from flacheck.model import Cell
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.tables import find_shipped_folder
from tests.benchmarks.measured import Cost, cost

PLAIN = str(Path(__file__).with_name("plain.py"))
ENGINE_TRITON, CRASHING_TRITON = "3.5.1", "3.2.0"
CELLS, CRASHES, SAMPLE = 208, 20, 12
SHAPES = [{"B": 1, "T": 2048 + 64 * i, "H": 4, "K": 64, "V": 64} for i in range(40)]


class Bench:
    """A folder for what the measured commands read and write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0

    def matrix(self, name: str, *blocks: dict[str, Any]) -> str:
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"version": 1, "include": list(blocks)}, sort_keys=False))
        return str(file)

    def scan(self, matrix: str, jobs: int = 1) -> Cost:
        """A whole `flacheck scan` into a store of its own."""
        self._runs += 1
        store = str(self._folder / f"store-{self._runs}")
        return cost(
            [
                sys.executable,
                "-m",
                "flacheck",
                "scan",
                matrix,
                "-j",
                str(jobs),
                "--store",
                store,
                "--format",
                "json",
            ]
        )

    def plain(
        self, cells: list[Cell], triton: str, mode: str = "all"
    ) -> tuple[Cost, dict[str, float]]:
        """The same cells in one process that only calls triton.compile."""
        self._runs += 1
        file, outputs_file = (
            self._folder / f"cells-{self._runs}.json",
            self._folder / f"said-{self._runs}.json",
        )
        file.write_text(json.dumps([request(cell) for cell in cells]))
        (choice,) = toolchains.resolve([triton]).choices
        paths = os.pathsep.join(toolchains.provide(choice).paths)
        environment = {
            "PYTHONPATH": paths,
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_CACHE_DIR": str(self._folder / f"c{self._runs}"),
        }
        command = f'exec "$0" "$@" 2> {outputs_file}'
        total = cost(
            [
                "sh",
                "-c",
                command,
                sys.executable,
                PLAIN,
                mode,
                str(file),
                str(find_shipped_folder("kernels")),
            ],
            environment,
        )
        return total, json.loads(outputs_file.read_text().splitlines()[-1])


def cells_of(matrix: str) -> list[Cell]:
    return list(planning.plan_job(Job(Subject(matrix), Selection())).cells)


def _good(triton: str, count: int, **axes: Any) -> dict[str, Any]:
    """Return `count` cells like those of the matrix quick: our kernels, num_warps 4."""
    kernels = [
        "retention.chunk_fwd_h",
        "retention.chunk_fwd_o",
        "gated_delta_rule.recompute_w_u_fwd",
        "gated_delta_rule.chunk_fwd_o",
    ]
    per_shape = len(
        cells_of_block({"kernel": kernels, "shape": SHAPES[:1], "triton": triton, **_USUAL, **axes})
    )
    shapes = SHAPES[: -(-count // per_shape)]
    return {"kernel": kernels, "shape": shapes, "triton": triton, **_USUAL, **axes}


_USUAL = {"dtype": "bf16", "target": ["sm80", "sm90"], "num_warps": 4, "num_stages": [2, 3]}


def cells_of_block(block: dict[str, Any]) -> list[Cell]:
    with tempfile.TemporaryDirectory() as folder:
        return cells_of(Bench(Path(folder)).matrix("block", block))


def overhead(bench: Bench) -> Iterator[str]:
    matrix = bench.matrix("overhead", _good(ENGINE_TRITON, CELLS))
    cells = cells_of(matrix)
    engine, (plain, output) = bench.scan(matrix), bench.plain(cells, ENGINE_TRITON)
    again, (plain_again, _) = bench.scan(matrix), bench.plain(cells, ENGINE_TRITON)
    fresh = (
        sum(
            bench.plain([cell], ENGINE_TRITON)[0].cpu
            for cell in cells[:: len(cells) // SAMPLE][:SAMPLE]
        )
        / SAMPLE
    )
    yield f"{len(cells)} cells, Triton {ENGINE_TRITON}; median plain compile {output['median']:.2f} CPU s"
    yield f"scan -j 1: {engine.cpu:.1f} and {again.cpu:.1f} CPU s"
    yield f"one plain process: {plain.cpu:.1f} and {plain_again.cpu:.1f} CPU s"
    yield f"scan -j 1 ÷ plain: {engine.cpu / plain.cpu:.3f} and {again.cpu / plain_again.cpu:.3f} (at most 1.10)"
    mean = (plain.cpu + plain_again.cpu) / 2 / len(cells)
    yield f"a fresh process a cell ÷ plain: {fresh / mean:.2f} (from {SAMPLE} cells)"


def crashes(bench: Bench) -> Iterator[str]:
    good = _good(CRASHING_TRITON, CELLS)
    bad = {
        "kernel": "gated_delta_rule.chunk_fwd_h",
        "shape": SHAPES[:CRASHES],
        "triton": CRASHING_TRITON,
        "dtype": "bf16",
        "target": "sm90",
        "num_warps": 8,
        "num_stages": 2,
    }
    all_bad = cells_of_block(bad)
    without, with_ = bench.matrix("without", good), bench.matrix("with", good, bad)
    warm = cells_of(without)[0]
    before, after = bench.scan(without), bench.scan(with_)
    _, plain = bench.plain([warm, *all_bad], CRASHING_TRITON, "crash")
    extra = (after.cpu - before.cpu - plain["cpu"]) / len(all_bad)
    yield f"{len(cells_of(without))} cells and {len(all_bad)} that crash, Triton {CRASHING_TRITON}"
    yield f"without {before.cpu:.1f} CPU s, with {after.cpu:.1f}, the crashes alone and plain {plain['cpu']:.1f}"
    yield f"extra a crash: {extra:.3f} CPU s (at most 0.3)"


BENCHMARKS: dict[str, Callable[[Bench], Iterator[str]]] = {
    "overhead": overhead,
    "crashes": crashes,
}


def main() -> None:
    names = sys.argv[1:] or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            raise SystemExit(f"no benchmark {name!r}: there are {', '.join(BENCHMARKS)}")
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for line in BENCHMARKS[name](Bench(Path(folder))):
                print("  " + line, flush=True)


main()
