"""How many failures that people reported in public flacheck shows.

    python -m tests.benchmarks.recall --keep FOLDER [--open | --sealed] [--mended] [--only ID …]
                                      [--narrow] [--budget 1800] [--configs usual]

Asks for each report of `recall.yaml` as its user would: a scan of the package at that version,
under that Triton release, for that GPU. A report is *shown* if a failure of the kernel that it
names has the message that it prints. `--mended` asks for the newer release of a report instead: it
is right if the kernel compiles. `--narrow` selects the kernel, which is faster and less of a
question. Each scan may take `--budget` seconds of CPU time, so that a busy machine changes nothing;
downloads cost next to none. A scan ends as soon as it shows its report. One that was cut short can
show a report, but it proves nothing else. FOLDER keeps the answers and the records: a second run compiles only what is new. For sealed
reports only the number shown is printed; `--why` prints more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.untested_cells import why_untested
from flacheck.model import Verdict
from flacheck.store import FILE, Store
from flacheck.tables import read_yaml

REPORTS = Path(__file__).with_name("recall.yaml")
# Seconds between two looks at the records of a scan.
_LOOK = 5


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question that a report's user has for a newer release."""

    package: str | None = None
    triton: str | None = None


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A reported failure: see the head of `recall.yaml`."""

    id: str
    source: str
    package: str
    triton: str
    target: str
    kernel: str = "*"
    message: str = ""
    version: Literal["report", "date", "next", "later"]
    when: str = ""
    sealed: bool = False
    mended: Question | None = None

    def names(self, kernel: str) -> bool:
        """Return True if the report is about a kernel: by its whole name or its last part."""
        last_part = re.split(r"[:.]", kernel)[-1]
        return fnmatchcase(kernel, self.kernel) or fnmatchcase(last_part, self.kernel)

    def prints(self, record: dict[str, Any]) -> bool:
        """Return True if a record has the reported message."""
        text = f"{record['message'] or ''}\n{record['signature'] or ''}"
        return re.search(self.message, text) is not None

    def move(self) -> Report:
        """Return the report's question for the newer release that mends it."""
        assert self.mended is not None
        package, triton = self.mended.package or self.package, self.mended.triton or self.triton
        return msgspec.structs.replace(self, package=package, triton=triton)


class Outcome(msgspec.Struct, frozen=True):
    """The judgement of a scan: right or not, None without a result, and the facts behind it."""

    is_right: bool | None
    why: str


def load_reports() -> list[Report]:
    """Return all reports of the file."""
    content = read_yaml(REPORTS.read_text(encoding="utf-8"))
    return msgspec.convert(content["reports"], list[Report])


def judge(report: Report, answer: dict[str, Any]) -> Outcome:
    """Return whether a scan's JSON shows a report, and why not."""
    records = [each for each in answer["records"] if report.names(each["kernel"])]
    if not records and answer["summary"]["partial"]:
        return Outcome(None, "the budget ended before any of its cells")
    if not records:
        return Outcome(False, _explain_absence(report, answer))
    failures = [each for each in records if each["verdict"] == "fails"]
    reported = Counter(each["kernel"] for each in failures if report.prints(each))
    untested = Counter[str]()
    for group in answer["summary"]["untested"]:
        untested[group["kernel"]] += group["cells"]
    failed = Counter(each["kernel"] for each in failures)
    shown = [kernel for kernel in reported if failed[kernel] > untested[kernel]]
    if shown:
        return Outcome(True, f"{sum(reported[each] for each in shown)} cells of {shown[0]}")
    if answer["summary"]["partial"]:
        return Outcome(None, f"the budget ended after {_count_verdicts(records, failures)}")
    if reported:
        return Outcome(False, "fails as reported, but not tested")
    return Outcome(False, _count_verdicts(records, failures))


def judge_mended(report: Report, answer: dict[str, Any]) -> Outcome:
    """Return whether a scan's JSON has the kernel compile where the report is mended."""
    records = [each for each in answer["records"] if report.names(each["kernel"])]
    if not records:
        return Outcome(False, _explain_absence(report, answer))
    still = [each for each in records if each["verdict"] == "fails" and report.prints(each)]
    if still:
        return Outcome(False, f"{len(still)} of {len(records)} cells fail as reported")
    if answer["summary"]["partial"]:
        return Outcome(None, f"the budget ended after {_count_verdicts(records, [])}")
    compiles = sum(each["verdict"] == "compiles" for each in records)
    return Outcome(bool(compiles), f"{compiles} of {len(records)} cells compile")


def ask(report: Report, keep: Path, scope: list[str], budget: int) -> dict[str, Any] | str:
    """Return the JSON of a scan, or the reason why there is none.

    `partial` of the summary has the place of a scan that the budget ended.
    """
    output = keep / f"{report.id}-{report.package}-{report.triton}.json"
    output.unlink(missing_ok=True)
    question = ["--package", report.package, "--triton", report.triton, "--target", report.target]
    written = ["--store", str(keep / "store"), "--format", "json", "-o", str(output)]
    run = [sys.executable, "-m", "flacheck", "scan", *question, *scope, "-j", "1", "-q", *written]
    log = output.with_suffix(".log")
    with log.open("w") as stderr, subprocess.Popen(run, stderr=stderr) as scan:
        while scan.poll() is None and cpu_seconds(scan.pid) < budget:
            if is_stored(report, keep / "store"):
                break
            time.sleep(_LOOK)
        is_late = scan.poll() is None
        # The scan stores what it has and ends its workers. A command in the background ignores
        # SIGINT, and so does all that it starts.
        scan.terminate()
    errors = log.read_text()
    if is_late:
        subprocess.run([sys.executable, "-m", "flacheck", "report", "-q", *written], check=False)
        errors = f"none within {budget} s"
    if not output.exists():
        last_line = [*errors.strip().splitlines(), "no output"][-1 if errors.strip() else 0]
        return f"exit {scan.returncode}: {last_line}"
    answer: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    # A scan that the budget ended while it captured stored no run.
    return answer if answer["run"]["matrix"] == report.package else errors


def is_stored(report: Report, folder: Path) -> bool:
    """Return True if the last run has a failure that shows a report; its scan may end then."""
    if not (folder / FILE).exists():
        return False
    records = []
    with Store.open(folder) as store:
        for record in store.records(store.run().id) if store.runs() else ():
            is_own = record.package == report.package and report.names(record.kernel)
            if is_own and record.verdict is Verdict.FAILS and report.prints(record.to_json()):
                records.append(record)
    return any(why_untested(cell) is None for cell in observe(records))


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process, of all below it, and of those of them that ended."""
    children = defaultdict(list)
    ticks = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a program may contain spaces.
            fields = file.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(file.parent.name))
        ticks[int(file.parent.name)] = sum(map(int, fields[11:15]))
    family = [process]
    for each in family:
        family += children[each]
    return sum(ticks.get(each, 0) for each in family) / os.sysconf("SC_CLK_TCK")


def select(given: argparse.Namespace) -> Iterator[Report]:
    """Yield the reports that the command line selects."""
    for report in load_reports():
        if given.only and report.id not in given.only:
            continue
        if (given.open and report.sealed) or (given.sealed and not report.sealed):
            continue
        if not given.mended:
            yield report
        elif report.mended is not None:
            yield report.move()


def _explain_absence(report: Report, answer: dict[str, Any]) -> str:
    """Return why no record names the kernel: flacheck's own reason where it has one."""
    for place in answer["summary"]["coverage"]:
        for missed in place["missed"]:
            if report.names(missed["kernel"]):
                return f"not recorded: {missed['reason']}"
    return "not counted"


def _count_verdicts(records: list[dict[str, Any]], failures: list[dict[str, Any]]) -> str:
    verdicts = Counter(each["verdict"] for each in records)
    text = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    signatures = Counter(each["signature"] for each in failures).most_common(1)
    return f"{text}; {signatures[0][0]}" if signatures else text


def main() -> None:
    """Ask for the selected reports and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True)
    half = parser.add_mutually_exclusive_group()
    half.add_argument("--open", action="store_true")
    half.add_argument("--sealed", action="store_true")
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--why", action="store_true")
    parser.add_argument("--budget", type=int, default=1800)
    parser.add_argument("--configs")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for report in select(given):
        scope = ["--kernel", report.kernel] if given.narrow and report.kernel != "*" else []
        scope += ["--configs", given.configs] if given.configs else []
        answer = ask(report, given.keep, scope, given.budget)
        judged = judge_mended if given.mended else judge
        outcome = Outcome(None, answer) if isinstance(answer, str) else judged(report, answer)
        outcomes.append(outcome.is_right)
        if given.why or not report.sealed:
            word = "right" if given.mended else "shown"
            states = {True: word, False: f"not {word}", None: "no answer"}
            place = f"{report.package} × {report.triton} × {report.target}"
            state = states[outcome.is_right]
            print(f"{report.id:22} {place:52} {state}: {outcome.why}", flush=True)
    right, missing = outcomes.count(True), outcomes.count(None)
    print(f"{right} of {len(outcomes)}, {missing} without an answer")


if __name__ == "__main__":
    main()
