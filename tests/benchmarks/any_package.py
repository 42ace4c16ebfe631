"""The share of kernels recorded and compiled, in packages that flacheck was not built on, as a table.

    python -m tests.benchmarks.any_package SPEC… --keep FOLDER [--compile] [--triton 3.6.0]
                                           [--target sm90] [--missed] [--dtype bf16]
                                           [--timeout 120]
    python -m tests.benchmarks.any_package --list tests/benchmarks/packages/kept.txt …

A SPEC is NAME==VERSION or a checkout. *Launchable* is counted by `launchable.py`; *recorded* says
of how many of those the capture has a launch; *answered* (with `--compile`) of how many a launch
ended `compiles` or `fails` and is not untested. Captures stay in flacheck's cache and records in
FOLDER, so that a second run compiles only what has changed. The usual configurations are compiled
first, and the others only of kernels that were not answered by these, which says the same sooner;
so are the other dtypes than `--dtype`. `--timeout` is the scan's. `--missed` names each kernel that
was not recorded, with flacheck's reason for it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck.errors import FlacheckError
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import resolve_package
from flacheck.source.packages.package import Package
from flacheck.subjects.captures.coverage import coverage
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject

from .launchable import Distribution

_HEADS = ("package", "version", "launchable", "recorded", "answered", "CPU s", "fails", "untested")


@dataclass(frozen=True)
class Compiling:
    """How launches are compiled: in one dtype first, and how long one may take."""

    dtype: str | None
    timeout: str


@dataclass
class Row:
    """The figures of one package; a figure that was not measured is None."""

    package: str
    version: str = ""
    launchable: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    answered: list[str] | None = None
    seconds: float | None = None
    fails: list[str] | None = None
    untested: int | None = None
    missed: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        counts: list[Any] = [len(self.launchable), len(self.recorded)]
        for many in (self.answered, self.seconds, self.fails, self.untested):
            counts.append(len(many) if isinstance(many, list) else many)
        texts = ["–" if count is None else f"{count:g}" for count in counts]
        return (self.package, self.version, *texts)


def launchable(package: Package, spec: str) -> list[str]:
    """The kernels of the distribution and of those that it pins exactly, as users have them."""
    names = [package.name]
    names += [name for name in package.contains if name.replace("_", "-") == f"{spec}-core"]
    if package.name == "flash-linear-attention" and "fla-core" in package.contains:
        names.append("fla-core")
    folder = Path(package.path)
    return sorted({k for name in names for k in Distribution(folder, name).launchable()})


def measure(spec: str, triton: str, target: str, keep: Path, compiling: Compiling | None) -> Row:
    row = Row(spec)
    selection = Selection(toolchains=(triton,), targets=(target,))
    try:
        (capture,) = resolve_package(Job(Subject(package=spec), selection)).capture().captures
    except FlacheckError as error:
        row.note = str(error).splitlines()[0]
        return row
    package = capture.package
    row.package, row.version = package.name, package.version
    row.launchable = launchable(package, package.name)
    assert capture.driven is not None
    row.seconds = capture.driven.report.get("seconds")
    if capture.driven.import_error:
        row.note = capture.driven.import_error.strip().splitlines()[-1]
    kernels = capture.driven.kernels
    row.recorded = sorted(set(row.launchable) & kernels.keys())
    kernel_coverage = coverage(dict.fromkeys(row.launchable, ()), kernels, capture.driven.report)
    row.missed = {each["kernel"]: each["reason"] for each in kernel_coverage["missed"]}
    if compiling is not None:
        command = ["--package", spec, "--triton", triton, "--target", target]
        _answer(row, [*command, "--timeout", compiling.timeout], keep, compiling.dtype)
    return row


def _answer(row: Row, command: list[str], keep: Path, dtype: str | None) -> None:
    """Compile few cells first, and more of the kernels without an answer."""
    steps = [("", ["--configs", "usual"]), ("-all", [])]
    if dtype is not None:
        steps.insert(0, (f"-{dtype}", ["--configs", "usual", "--dtype", dtype]))
    name = f"{row.package}-{row.version}"
    documents: list[dict[str, Any] | None] = []
    kernels: list[str] = []
    for suffix, options in steps:
        documents.append(_scan(row, [*command, *options, *kernels], keep, name + suffix))
        _count(row, documents)
        rest = sorted(set(row.recorded) - set(row.answered or ()))
        if not rest:
            return
        kernels = [part for kernel in rest for part in ("--kernel", kernel)]


def _scan(row: Row, command: list[str], keep: Path, name: str) -> dict[str, Any] | None:
    """Return a scan's JSON, None where there was nothing to compile or the scan went wrong."""
    output = keep / f"{name}.json"
    output.unlink(missing_ok=True)
    run = [sys.executable, "-m", "flacheck", "scan", *command, "--format", "json"]
    run += ["--store", str(keep / "store"), "-o", str(output)]
    result = subprocess.run(run, stderr=subprocess.PIPE, text=True)
    if result.returncode not in (0, 1, 3):
        row.note = result.stderr.strip().splitlines()[-1]
        return None
    document: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return document


def _count(row: Row, scans: list[dict[str, Any] | None]) -> None:
    """A kernel is answered if a launch compiled, or if more launches failed than flacheck's own
    arguments can explain.
    """
    counts: Counter[str] = Counter()
    verdicts: Counter[tuple[str, str]] = Counter()
    for document in filter(None, scans):
        of_scan: Counter[str] = Counter()
        for each in document["summary"]["untested"]:
            of_scan[each["kernel"]] += each["cells"]
        counts_of = Counter(
            (r["kernel"], r["verdict"]) for r in document["records"] if not r["tolerated"]
        )
        # A kernel of a later scan has its counts from there alone: it has more dtypes.
        for kernel in {kernel for kernel, _ in counts_of} | set(of_scan):
            counts.pop(kernel, None)
            for verdict in ("compiles", "fails"):
                verdicts.pop((kernel, verdict), None)
        counts.update(of_scan)
        verdicts.update(counts_of)
    failing = {kernel for kernel, verdict in verdicts if verdict == "fails"}
    row.fails = sorted(k for k in failing if verdicts[k, "fails"] > counts[k])
    ends = {kernel for kernel, verdict in verdicts if verdict == "compiles"}
    row.answered = sorted(ends.union(row.fails) & set(row.launchable))
    row.untested = len(counts)


def table(rows: list[Row]) -> str:
    lines = [_HEADS, ("---",) * len(_HEADS), *(row.cells() for row in rows)]
    total = Row("all")
    counts = [sum(len(getattr(row, name)) for row in rows) for name in ("launchable", "recorded")]
    count = sum(len(row.answered or ()) for row in rows)
    lines.append((total.package, "", *map(str, counts), str(count), "", "", ""))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="*")
    parser.add_argument("--list", type=Path)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--triton", default="3.6.0")
    parser.add_argument("--target", default="sm90")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--missed", action="store_true")
    parser.add_argument("--dtype")
    parser.add_argument("--timeout", default="auto")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    specs = list(options.specs)
    if options.list:
        lines = options.list.read_text(encoding="utf-8").splitlines()
        specs += [line for line in lines if line and not line.startswith("#")]
    rows = []
    for spec in specs:
        try:
            compiling = None
            if options.compile:
                compiling = Compiling(options.dtype, options.timeout)
            rows.append(measure(spec, options.triton, options.target, options.keep, compiling))
        except Exception:
            # The other packages are still to be measured.
            traceback.print_exc()
            rows.append(Row(spec, note="the measurement itself failed"))
        _keep(options.keep, rows[-1])
        print("| " + " | ".join(rows[-1].cells()) + f" | {rows[-1].note}", file=sys.stderr)
    print(table(rows))
    for row in rows:
        if row.note:
            print(f"\n{row.package}: {row.note}")
        for kernel, reason in row.missed.items():
            if options.missed:
                print(f"\n- {row.package} {kernel}: {reason}")


def _keep(folder: Path, row: Row) -> None:
    name = Path(row.package).name
    (folder / f"{name}.row.json").write_text(json.dumps(vars(row), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
