"""Does a card do what the compile-only verdicts say? Run on a machine with a GPU and the same
Triton:

    flacheck scan MATRIX --triton 3.6.0 --target sm90 --format json -o records.json     (anywhere)
    python tests/gpu/check_verdicts.py records.json [I/N]                                (there;
    part I of N)

Every record is compiled again by the Triton there and loaded onto the card. `compiles` must load; a
shared-memory failure (FC501) must be refused by the card; shared memory and registers must be the
recorded ones.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))


def kernel(name: str, modules: dict = {}):  # noqa: B006
    family, _, function = name.partition(".")
    if family not in modules:
        spec = importlib.util.spec_from_file_location(family, ROOT / "kernels" / f"{family}.py")
        modules[family] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[family])
    function_found = getattr(modules[family], function)
    while not hasattr(function_found, "params"):
        function_found = function_found.fn
    return function_found


def attempt(record: dict) -> tuple[str, int | None, int | None]:
    """Return (the card's outcome, shared memory, registers) of one record."""
    from triton.runtime.errors import OutOfResources

    from flacheck.guest.workers import values

    arguments = values.arguments(record["launch"]["args"])
    binary = kernel(record["kernel"]).run(grid=None, warmup=True, **arguments, **record["options"])
    try:
        binary._init_handles()
    except OutOfResources as error:
        return f"refused: {error.name}", binary.metadata.shared, None
    return "loads", binary.metadata.shared, binary.n_regs


def main() -> int:
    import torch
    import triton

    with open(sys.argv[1]) as file:
        records = [
            r
            for r in json.load(file)["records"]
            if r["kernel"].count(".") == 1 and r["package"] is None
        ]
    index, _, count = (sys.argv[2] if len(sys.argv) > 2 else "1/1").partition("/")
    records = records[int(index) - 1 :: int(count)]
    tally: Counter[str] = Counter()
    for record in records:
        outcome, shared, registers = attempt(record)
        forecast = "loads" if record["verdict"] == "compiles" else "refused: shared memory"
        same = outcome == forecast and shared == record["resources"]["shared"]
        tally["verdict and shared memory agree" if same else "DIFFERS"] += 1
        tally[f"{record['verdict']} {record['code'] or ''}: {outcome}"] += 1
        tally["registers agree"] += (
            registers is not None and registers == record["resources"]["registers"]
        )
        if not same:
            print(
                record["key"],
                record["kernel"],
                record["options"],
                record["verdict"],
                "→",
                outcome,
                shared,
                record["resources"],
            )
    print(torch.cuda.get_device_name(), "Triton", triton.__version__, dict(tally))
    return int(bool(tally["DIFFERS"]))


if __name__ == "__main__":
    sys.exit(main())
