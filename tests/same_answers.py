"""Compare the answers of two checkouts of flacheck in JSON, without times, ids and paths.

`python -m tests.same_answers OLD NEW` runs the same commands with each checkout, each in a folder
and a store of its own, and prints the fields of every answer that differ.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CELL = ("--kernel", "*fwd_kernel_o", "--triton", "3.3.0", "--target", "sm70", "--dtype", "fp16")
SLICE = ("--kernel", "*chunk_o*", "--target", "sm70")
COMMANDS = {
    "scan seeds": ("scan", "seeds"),
    "gate": ("gate", "pins.txt", "--matrix", "seeds", "--target", "sm70"),
    "bisect": ("bisect", "seeds", *CELL, "--num-warps", "4"),
    "repro": ("repro", "seeds", *CELL, "--num-warps", "4", "-o", "repro"),
    "autotune": (
        "autotune",
        "chunk_scaled_dot_kkt_fwd_kernel",
        "--matrix",
        "seeds",
        "--triton",
        "3.1.0",
    ),
    "diff": ("diff", "triton==3.2.0", "triton==3.3.0", "--matrix", "seeds", *SLICE),
    "dtypes": (
        *("dtypes", "fla.layers.rwkv7:RWKV7Attention", "--autocast", "fp16"),
        *("--package", "flash-linear-attention==0.1.2"),
    ),
    "explain": ("explain", "failure.log"),
    "known": ("known", "flash-linear-attention==0.4.2", "--target", "sm90"),
}
PINS = "torch==2.7.0\ntriton==3.3.0\n"
LOG = Path(__file__).parent / "logs"
# Fields whose values belong to one run or one machine.
PASSING = {
    *("seconds", "peak_mb", "cached", "started", "id", "python", "platform", "flacheck", "files"),
    *("elapsed", "cpu_seconds", "load", "processors", "path", "cpu", "wait", "environment", "ran"),
}
NUMBERS_OF_A_RUN = re.compile(r"0x[0-9a-f]+|/tmp/\S+|<scratch>/\S+|\b\d+(\.\d+)? (s|ms|MB|min)\b")

Leaf = tuple[str, object]


def leaves(value: object, path: str = "") -> Iterator[Leaf]:
    """Yield the path and value of each field; an element of a list has no position in its path."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in PASSING:
                yield from leaves(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, f"{path}[]")
    else:
        yield path, NUMBERS_OF_A_RUN.sub("N", value) if isinstance(value, str) else value


def answer(checkout: Path, place: Path, arguments: tuple[str, ...]) -> tuple[int, Counter[Leaf]]:
    """Run a command with a checkout; return its exit code and the fields of its JSON."""
    ran = subprocess.run(
        [sys.executable, "-m", "flacheck", *arguments, "--format", "json"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )
    try:
        document = json.loads(ran.stdout)
    except ValueError:
        document = {"stderr": ran.stderr}
    return ran.returncode, Counter(leaves(document))


def compare(old: tuple[int, Counter[Leaf]], new: tuple[int, Counter[Leaf]]) -> list[str]:
    """Return a line for each field with other values, with the number of values on each side."""
    lines = [] if old[0] == new[0] else [f"exit code {old[0]} is now {new[0]}"]
    lost, gained = old[1] - new[1], new[1] - old[1]
    for path in sorted({path for path, _ in [*lost, *gained]}):
        before = [value for value in lost.elements() if value[0] == path]
        after = [value for value in gained.elements() if value[0] == path]
        examples = " → ".join(
            str(side[0][1])[:160] if side else "nothing" for side in (before, after)
        )
        lines.append(f"{path}: {len(before)} → {len(after)}, such as {examples}")
    return lines


def main(old: Path, new: Path, only: set[str]) -> int:
    """Print the differences of each command; return the number of commands that differ."""
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        places = []
        for name in ("old", "new"):
            place = Path(folder, name)
            place.mkdir()
            (place / "pins.txt").write_text(PINS)
            log = (LOG / "FC302" / "golden-reshape-outs-3.2.0.log").read_text()
            (place / "failure.log").write_text(log)
            places.append(place)
        for name, arguments in COMMANDS.items():
            if only and name not in only:
                continue
            answers = [answer(*each, arguments) for each in zip((old, new), places, strict=True)]
            lines = compare(*answers)
            fields = answers[0][1].total()
            print(
                f"{name}: exit {answers[0][0]}, {fields} fields, {len(lines) or 'no'} differences",
                flush=True,
            )
            for line in lines:
                print(f"  {line}", flush=True)
            differing += bool(lines)
    return differing


if __name__ == "__main__":
    old, new = (Path(argument).resolve() for argument in sys.argv[1:3])
    raise SystemExit(main(old, new, set(sys.argv[3:])) > 0)
