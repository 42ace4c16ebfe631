"""Does the estimate rank configurations as a card does? Run on a machine with a GPU, torch and a Triton:

    python tests/gpu/check_estimate.py [KERNEL-GLOB] [B,T,H,K,V]

Every compiling configuration of our kernels is timed there by `flacheck autotune --bench`. A line a kernel: Spearman's
rank correlation of the times with the estimate (1 is a perfect ranking), with one minus the occupancy, and with the
registers a thread; how much slower than the best the configuration is that the estimate puts first, and the median one;
and the largest error of a result against the first configuration's. Nothing is judged: whatever comes out is reported.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))
SHAPE = "4,4096,16,128,128"
COLUMNS = ("kernel", "timed", "estimate", "1-occupancy", "registers", "first/best", "median/best", "error")


def measured(glob: str, shape: str) -> list[dict[str, Any]]:
    """The results of `flacheck autotune --bench` for one shape in bf16."""
    sizes = dict(zip("BTHKV", map(int, shape.split(","))))
    with tempfile.TemporaryDirectory() as folder:
        matrix, out = Path(folder) / "estimate.yaml", Path(folder) / "out.json"
        matrix.write_text(json.dumps({"version": 1, "axes": {"dtype": "bf16", "shape": sizes}}))
        command = ["autotune", glob, "--matrix", str(matrix), "--bench", "--format", "json", "-o", str(out)]
        done = subprocess.run([sys.executable, "-m", "flacheck", *command, "--store", folder], cwd=ROOT)
        if not out.exists():
            sys.exit(done.returncode)
        return json.loads(out.read_text())["results"]


def row(result: dict[str, Any]) -> list[str]:
    from flacheck.autotune.ranks import spearman

    configs = [c for c in result["configs"] if c["timing"] and c["timing"]["median_ms"] is not None]
    if not configs:
        return [result["kernel"], "0", *"–" * (len(COLUMNS) - 2)]
    times = [c["timing"]["median_ms"] for c in configs]
    first = times[min(range(len(configs)), key=lambda i: configs[i]["estimate"])]
    ranks = [
        spearman([c["estimate"] for c in configs], times),
        spearman([1 - (c["occupancy"] or 0) for c in configs], times),
        spearman([c["resources"]["registers"] or 0 for c in configs], times),
    ]
    said = ["–" if rank is None else f"{rank:.2f}" for rank in ranks]
    prices = [f"{time / min(times):.2f}" for time in (first, statistics.median(times))]
    return [result["kernel"], str(len(configs)), *said, *prices, f"{max(c['timing']['error'] for c in configs):.1e}"]


def main(glob: str = "*", shape: str = SHAPE) -> int:
    """0; the ranks are on stdout."""
    results = measured(glob, shape)
    print("\t".join(COLUMNS))
    for result in results:
        print("\t".join(row(result)))
        for config in result["configs"]:
            time = config["timing"] or {}
            print(f"    {config['config']} estimate {config['estimate']} occupancy {config['occupancy']} {time}")
    known = [result["rank"] for result in results if result["rank"] is not None]
    if known:
        print(f"{len(known)} kernels, median rank correlation of the estimate {statistics.median(known):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
