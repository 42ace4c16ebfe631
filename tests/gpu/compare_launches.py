"""Compares two launches files of one program, from a card and from one that is not there:
`REAL.jsonl FAKE.jsonl`.

Launches are the same when kernel, arguments (dtypes, alignment, numbers), constants, options,
configurations, keys and grid are. Prints a markdown table by module; exit 1 when a launch is in one
file only.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def launches(file: str) -> Counter[str]:
    """Distinct launches with how often each was made."""
    identities: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for line in map(json.loads, Path(file).read_text(encoding="utf-8").splitlines()):
        if "kernel" in line:
            lines = {
                name: line.get(name)
                for name in ("kernel", "launch", "options", "heuristics", "grid", "source")
            }
            identities[line["id"]] = json.dumps(lines, sort_keys=True)
        of = line.get("of", line.get("id"))
        if of in identities:
            counts[identities[of]] += line.get("count", 1)
    return counts


def module(identity: str) -> str:
    name: str = json.loads(identity)["kernel"].partition(":")[0]
    return ".".join(name.split(".")[:3])


def main() -> int:
    real, fake = (launches(file) for file in sys.argv[1:3])
    print(
        "| module | kernels | distinct on the card | of them without it | launches on the card | without it |"
    )
    print("|---|---|---|---|---|---|")
    for name in sorted({module(identity) for identity in {*real, *fake}}):
        mine = [identity for identity in real if module(identity) == name]
        theirs = [identity for identity in fake if module(identity) == name]
        kernels = {json.loads(identity)["kernel"] for identity in mine}
        sums = sum(real[identity] for identity in mine), sum(fake[identity] for identity in theirs)
        print(
            f"| {name} | {len(kernels)} | {len(mine)} | {len({*mine} & {*theirs})} | {sums[0]} | {sums[1]} |"
        )
    print(
        f"\nboth {len(real.keys() & fake.keys())}, card only {len(real.keys() - fake.keys())}, ",
        end="",
    )
    print(
        f"fake only {len(fake.keys() - real.keys())}; launches {sum(real.values())} and {sum(fake.values())}"
    )
    for where, only in (("card", real.keys() - fake.keys()), ("fake", fake.keys() - real.keys())):
        for identity in sorted(only)[:10]:
            print(f"only {where}: {identity[:600]}")
    return 1 if real.keys() ^ fake.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
