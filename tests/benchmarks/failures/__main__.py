"""`python -m tests.benchmarks.failures reduce|judge|table`."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.failures.cases import arguments, choose
from tests.benchmarks.failures.judge import environments, judge

# A case that hangs must not hold up the others.
_LONGEST = 900


def reduce(out: Path, names: list[str], budget: str, releases: str) -> None:
    """Run the command on each case, one after the other, and store each outcome."""
    for case in choose(names):
        folder = out / case.name
        folder.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "flacheck", "repro", *arguments(case, folder)]
        if budget:
            words += ["--budget", budget]
        if releases:
            words += ["--releases", releases]
        words += ["--store", str(folder / "store"), "-o", str(folder), "--format", "json"]
        start, cpu = time.monotonic(), _processor_seconds()
        try:
            result = subprocess.run(words, capture_output=True, text=True, timeout=_LONGEST)
            status, output = result.returncode, result.stderr
        except subprocess.TimeoutExpired:
            status, output = 124, "it took too long"
        seconds = round(time.monotonic() - start, 1)
        used = round(_processor_seconds() - cpu, 1)
        ran = {"exit": status, "seconds": seconds, "cpu": used, "load": os.getloadavg()[0]}
        (folder / "ran.json").write_text(json.dumps(ran))
        (folder / "stderr.txt").write_text(output)
        print(f"{case.name:18} exit {status}, {seconds:.0f} s", flush=True)


def _processor_seconds() -> float:
    """Return the CPU seconds of all children so far, since the clock of a busy machine is no
    measure."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def judge_cases(out: Path, names: list[str]) -> None:
    """Run every original and reduction under every cached release, and store the differences."""
    shelves = sorted(Path(os.environ["FLACHECK_CACHE_DIR"], "toolchains").glob("triton-*"))
    releases = [shelf for shelf in shelves if "+" not in shelf.name]
    with environments(releases) as pythons:
        for case in choose(names):
            folder = out / case.name
            if (folder / "repro.json").exists():
                judgement = judge(folder, pythons)
                (folder / "judged.json").write_text(json.dumps(judgement, indent=1))
                output = (
                    f"exit {judgement['exit']}; differs, and does not say so: {judgement['unsaid']}"
                )
                print(f"{case.name:18} {judgement['kept']}, {output}", flush=True)


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    judgement: dict[str, Any] = json.loads(file.read_text())
    return judgement


def table(out: Path, names: list[str]) -> None:
    """A row for each case, and the medians."""
    head = (
        "case",
        "release",
        "target",
        "signature",
        "lines",
        "compiles",
        "s",
        "cpu s",
        "load",
        "exit",
        "script's exit",
        "kept",
        "differs on",
        "said",
    )
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    lines, seconds, cpu = [], [], []
    for case in choose(names):
        folder = out / case.name
        about, ran, judgement = (_read(folder / f"{n}.json") for n in ("repro", "ran", "judged"))
        if not about:
            continue
        lines.append(about["after"]["lines"])
        seconds.append(ran["seconds"])
        cpu.append(ran["cpu"])
        row = [case.name, case.triton, case.target, about["signature"]]
        row.append(f"{about['before']['lines']} → {about['after']['lines']}")
        row += [about["ran"], ran["seconds"], ran["cpu"], round(ran["load"], 1), ran["exit"]]
        row += [judgement.get("exit", "?"), judgement.get("kept", "?")]
        row += [", ".join(judgement.get("differing", [])), not judgement.get("unsaid")]
        print("| " + " | ".join(map(str, row)) + " |")
    if lines:
        figures = f"median {median(lines)} lines, {median(seconds)} s, {median(cpu)} CPU s"
        print(f"\n{len(lines)} cases; {figures}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["reduce", "judge", "table"])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", default="", help="of the command. Default: its own")
    parser.add_argument("--releases", default="", help="verify on these alone. Default: all")
    # The cases may stand behind the options.
    options = parser.parse_intermixed_args()
    out = options.out.absolute()
    if options.what == "reduce":
        reduce(out, options.cases, options.budget, options.releases)
    elif options.what == "judge":
        judge_cases(out, options.cases)
    else:
        table(out, options.cases)


if __name__ == "__main__":
    main()
