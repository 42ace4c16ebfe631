"""The finds of `--strategy adaptive`, replayed on stored verdicts without a compile:
`python -m tests.benchmarks.strategy STORE --package flash-linear-attention==0.2.2 \\
    --toolchain triton==3.2.0,triton==3.3.1 --target sm70,sm90`.

The latest records of the package are the full cross. Its kernels are drawn into two halves by a
seed; for each half the output is the share of the cells that the strategy compiles, the share of
its covering set, and which of the signatures and of the (kernel, signature) pairs it finds.
`--export FILE` writes the cross as a table for `tests/pipeline/test_adaptive_crosses.py`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

from flacheck.evidence.analysis.ordered_search import State
from flacheck.model import Record, Verdict
from flacheck.pipeline.adaptive import SHARE, choose_rounds, point_of, state_of
from flacheck.store import Store


def failures(records: Sequence[Record]) -> set[tuple[str, str | None]]:
    """Return the (kernel, signature) of the failing records."""
    return {(each.kernel, each.signature) for each in records if each.verdict is Verdict.FAILS}


def show(name: str, records: Sequence[Record], share: float) -> None:
    """Replay the strategy on records and print what it finds."""
    by_key = {record.key: record for record in records}
    points = {key: point_of(record.cell) for key, record in by_key.items()}
    states: dict[str, State] = {}
    rounds = []
    for keys in choose_rounds(points, states, share):
        rounds.append(len(keys))
        for key in keys:
            states[key] = state_of(by_key[key])
    all_failures = failures(records)
    caught = failures([by_key[key] for key in states])
    all_signatures = {signature for _, signature in all_failures}
    signatures = {signature for _, signature in caught}
    print(
        f"{name}: {len(states)} of {len(records)} cells ({len(states) / len(records):.1%}; covering"
        f" set {rounds[0] / len(records):.1%}) in {len(rounds)} rounds; {len(signatures)} of"
        f" {len(all_signatures)} signatures, {len(caught)} of {len(all_failures)} pairs of kernel"
        " and signature"
    )
    for signature in sorted(map(str, all_signatures - signatures)):
        count = sum(each.signature == signature for each in records)
        print(f"  missed: {signature} ({count} of {len(records)} cells)")


def export(records: Sequence[Record], file: Path) -> None:
    """Write points and states as a table; a launch's other arguments become a number."""
    points = [dict(point_of(record.cell)) for record in records]
    axes = sorted(set().union(*points))
    launches: dict[str, int] = {}
    rows = []
    for record, point in sorted(zip(records, points), key=lambda pair: pair[0].key):
        point["launch"] = launches.setdefault(point["launch"], len(launches))
        rows.append([*(point.get(axis) for axis in axes), state_of(record)])
    text = json.dumps({"axes": axes, "rows": rows}, separators=(",", ":"))
    # Without the time of writing, equal tables are equal files.
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--package", required=True, help="NAME==VERSION")
    parser.add_argument("--toolchain", required=True, help="releases, comma-separated")
    parser.add_argument("--target", required=True, help="GPUs, comma-separated")
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--export", type=Path)
    options = parser.parse_args()
    toolchains, targets = options.toolchain.split(","), options.target.split(",")
    records = []
    with Store.open(options.store, create=False) as store:
        for record in store.latest():
            is_place = record.toolchain in toolchains and record.target in targets
            is_compile = record.stage != "autotune" and record.cell.launch is not None
            if record.package == options.package and is_place and is_compile:
                records.append(record)
    if options.export:
        export(records, options.export)
    kernels = sorted({record.kernel for record in records})
    random.Random(options.seed).shuffle(kernels)
    middle = len(kernels) // 2
    for name, part in (("tuned on", kernels[:middle]), ("reported on", kernels[middle:])):
        show(name, [record for record in records if record.kernel in part], options.share)


if __name__ == "__main__":
    main()
