"""Does the estimate rank configurations as a card does? Run on a machine with a GPU and a Triton:

    python tests/gpu/check_estimate.py KERNEL-GLOB FILE.jsonl [I/N]

Every compiling configuration of the kernels in a launches file is timed there by `flacheck autotune
--bench`, or part I of N of the kernels, where a run has to be short. A line a
kernel: how many were timed; Spearman's rank correlation of the times with the estimate (1 is a
perfect ranking), with one minus the occupancy, and with the registers a thread; how much slower
than the best the configuration is that the estimate puts first, and the median one; and the largest
error of a result against the first configuration's; or why none was timed. Nothing is judged.

A launches file of FLA's operators at such a size comes from any machine with torch, Triton and FLA,
and holds sources:

    flacheck capture --device h200 -o fla.jsonl -- python tests/gpu/operators.py \\
        --sizes 4,4096,16,128 --forward chunk_gla chunk_retention chunk_delta_rule
        chunk_gated_delta_rule
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
COLUMNS = (
    "kernel",
    "timed",
    "estimate",
    "1-occupancy",
    "registers",
    "first/best",
    "median/best",
    "error",
)


def measure(glob: str, of: str, part: str) -> list[dict[str, Any]]:
    """The results of `flacheck autotune --bench` for a launches file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        source = _part(Path(of), Path(folder), part)
        command = [
            "autotune",
            glob,
            *source,
            "--fallback-budget",
            "0",
            "--bench",
            "--format",
            "json",
            "-o",
            str(out),
        ]
        result = subprocess.run(
            [sys.executable, "-m", "flacheck", *command, "--store", folder], cwd=ROOT
        )
        if not out.exists():
            sys.exit(result.returncode)
        return json.loads(out.read_text())["results"]


def _part(file: Path, folder: Path, part: str) -> list[str]:
    """A launches file with every N-th kernel of another, each source in the first line that uses
    it."""
    index, count = map(int, part.split("/"))
    header, *lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    launches = [line for line in lines if "kernel" in line]
    texts = {line["source"]: line.pop("text") for line in launches if "text" in line}
    kernels = list(
        dict.fromkeys(line["kernel"] for line in launches if "configs" in line["launch"])
    )[index - 1 :: count]
    matches = [line for line in launches if line["kernel"] in kernels]
    for line in matches:
        if line["source"] in texts:
            line["text"] = texts.pop(line["source"])
    part_file = folder / "part.jsonl"
    part_file.write_text(
        "".join(json.dumps(line) + "\n" for line in (header, *matches)), encoding="utf-8"
    )
    return ["--launches", str(part_file)]


def row(result: dict[str, Any]) -> list[str]:
    from flacheck.capabilities.autotune.bench import spearman

    configs = [c for c in result["configs"] if c["timing"] and c["timing"]["median_ms"] is not None]
    if not configs:
        return [
            result["kernel"],
            "0",
            *"–" * (len(COLUMNS) - 2),
            result["not_timed"] or "no configuration could be",
        ]
    times = [c["timing"]["median_ms"] for c in configs]
    first = times[min(range(len(configs)), key=lambda i: configs[i]["estimate"])]
    ranks = [
        spearman([c["estimate"] for c in configs], times),
        spearman([1 - (c["occupancy"] or 0) for c in configs], times),
        spearman([c["resources"]["registers"] or 0 for c in configs], times),
    ]
    texts = ["–" if rank is None else f"{rank:.2f}" for rank in ranks]
    prices = [f"{time / min(times):.2f}" for time in (first, statistics.median(times))]
    errors = [c["timing"]["error"] for c in configs if c["timing"]["error"] is not None]
    return [
        result["kernel"],
        str(len(configs)),
        *texts,
        *prices,
        f"{max(errors):.1e}" if errors else "–",
    ]


def main(glob: str, of: str, part: str = "1/1") -> int:
    """0; the ranks are on stdout."""
    results = measure(glob, of, part)
    print("\t".join(COLUMNS))
    for result in results:
        print("\t".join(row(result)))
        for config in result["configs"]:
            time = config["timing"] or {}
            print(
                f"    {config['config']} estimate {config['estimate']} occupancy {config['occupancy']} {time}"
            )
    numbers = [result["rank"] for result in results if result["rank"] is not None]
    if numbers:
        print(
            f"{len(numbers)} kernels, median rank correlation of the estimate {statistics.median(numbers):.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
