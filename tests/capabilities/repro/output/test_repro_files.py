"""What a reproduction leaves in its folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from flacheck.capabilities.repro.output import files
from flacheck.capabilities.repro.output.issue import error, issue, nameless, title
from flacheck.capabilities.repro.output.result import Effort, Reproduced, Runs
from flacheck.capabilities.repro.output.script import render, render_short
from flacheck.capabilities.repro.output.symptom import Symptom
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.errors import UsageError
from flacheck.model import Verdict
from tests.made_records import record
from tests.made_specimens import FAILS, POINTER, SIGNATURE, chain, specimen
from tests.paths import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "repro-1.json").read_text())


def result() -> Reproduced:
    table = {
        FAILS: ReleaseVerdict(Verdict.FAILS, SIGNATURE),
        "triton==3.4.0": ReleaseVerdict(Verdict.COMPILES),
    }
    failing = record("fails", code="FC302", signature=SIGNATURE, message="/project/l.cpp:1: boom")
    small = specimen("tl.store(x, 1)", x=POINTER)
    return Reproduced(
        cell=chain().cell(FAILS),
        record=failing,
        original=chain(),
        reduction=small,
        script=render(small, Symptom("boom", "triton 3.2.0 fails")),
        original_script=render(chain(), Symptom("boom", "triton 3.2.0 fails")),
        effort=Effort(3, 5, 1, 0.5),
        runs=Runs(3, 3),
        releases=tuple(table),
        original_table=table,
        reduced_table=table,
        exits={FAILS: 0, "triton==3.4.0": 1},
        log=("found at /home/me/secret/x.py",),
    )


def test_what_is_written_follows_the_schema_and_names_no_machine(tmp_path: Path) -> None:
    """Every file is there, the JSON as the schema has it, and no folder of the machine in any."""
    written = files.write(files.contents(result()), tmp_path / "out")
    names = ["repro.py", "original.py", "issue.md", "log.txt", "repro.json"]
    about = json.loads((tmp_path / "out/repro.json").read_text())
    assert [file.name for file in written] == names
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(names)
    jsonschema.validate(about, SCHEMA)
    assert about["files"] == names
    for file in written:
        assert "/home/" not in file.read_text()
        assert "/project/" not in file.read_text()


def test_the_json_says_what_came_of_the_reduction() -> None:
    """Sizes, cost, runs, and for each release the verdicts without their seconds."""
    about = result().to_json([])
    assert about["before"] == {"lines": 10, "nodes": chain().nodes}
    assert about["after"]["lines"] == 1
    assert (about["asked"], about["ran"], about["slipped"], about["seconds"]) == (3, 5, 1, 0.5)
    assert about["runs"] == {"reproduced": 3, "of": 3}
    fails = {"verdict": "fails", "signature": SIGNATURE}
    compiles = {"verdict": "compiles", "signature": None}
    assert about["versions"] == [
        {"toolchain": FAILS, "original": fails, "reduced": fails, "exit": 0},
        {"toolchain": "triton==3.4.0", "original": compiles, "reduced": compiles, "exit": 1},
    ]


def test_a_release_that_was_not_asked_again_is_null() -> None:
    """An interrupted reproduction may know the original's verdict alone."""
    partial = replace(result(), reduced_table={}, exits={})
    about = partial.to_json(["repro.json"])
    jsonschema.validate(about, SCHEMA)
    assert [entry["reduced"] for entry in about["versions"]] == [None, None]
    assert [entry["exit"] for entry in about["versions"]] == [None, None]


def test_a_release_that_was_not_reached_has_a_row() -> None:
    """It has neither verdict nor exit status, in the table and in the document."""
    partial = replace(result(), releases=(*result().releases, "triton==3.5.0"))
    about = partial.to_json(["repro.json"])
    jsonschema.validate(about, SCHEMA)
    missing = {"toolchain": "triton==3.5.0", "original": None, "reduced": None, "exit": None}
    assert about["versions"][-1] == missing
    assert "| 3.5.0 | not reached | not reached |" in list(issue(partial))


def test_files_of_an_older_reproduction_do_not_stay_beside_a_newer_script(tmp_path: Path) -> None:
    """An unverified draft removes them too: its issue is not known yet."""
    files.write(files.contents(replace(result(), ttir="module {}\n")), tmp_path)
    drafts = {files.SCRIPT: "# a draft\n", files.ORIGINAL: "# whole\n"}
    files.write(drafts, tmp_path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == drafts


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    """With the option that mends it."""
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match=r"out: cannot be written .* -o"):
        files.write({"a": ""}, tmp_path / "out")


def test_an_issue_says_where_a_reduction_does_not_show_the_failure() -> None:
    """A release that the original fails on and the script does not is named."""
    lost = list(issue(replace(result(), exits={FAILS: 1, "triton==3.4.0": 1})))
    said = "The original kernel also fails in this way on 3.2.0; "
    assert said + "the reproducer does not show it there." in lost
    assert "| 3.2.0 | fails | does not show it |" in lost


def test_an_issue_keeps_the_lines_of_python_in_an_error() -> None:
    """Those of a module that the compiler dumps go; one of Python that begins alike stays."""
    said = (
        "    module = src.make_ir(target)\nmodule attributes {ttg.x = 1} {\n  %0 = tt.load\n}\nboom"
    )
    lines = list(issue(replace(result(), output=said)))
    printed = lines[lines.index("    module = src.make_ir(target)") :][:3]
    assert printed == ["    module = src.make_ir(target)", "boom", "```"]


def test_an_issue_has_what_a_maintainer_asks_for() -> None:
    """The compiler's words, GPU and release in the title; the fields of Triton's own form."""
    made = replace(
        result(), output='Traceback\n  File "/home/me/triton/compiler/compiler.py"\nboom'
    )
    lines = list(issue(made))
    assert lines[0] == "# boom in reshapeOuts (sm90, Triton 3.2.0)"
    assert lines[2].startswith("<!-- compiler bug. ")
    assert lines[2].endswith("https://github.com/triton-lang/triton/issues/new?template=bug.yml")
    assert "Newer releases that compile the original: 3.4.0." in lines
    assert [line for line in lines if line.startswith("## ")] == [
        "## Describe the bug",
        "## Environment details",
    ]
    printed = lines[lines.index("Traceback") :][:3]
    assert printed == ["Traceback", '  File "triton/compiler/compiler.py"', "boom"]
    assert "- Triton: 3.2.0" in lines
    assert "- num_warps: 8 → the compiler's default, under which the same failure shows" in lines
    assert "| 3.2.0 | fails | fails |" in lines
    assert "| 3.4.0 | compiles | compiles |" in lines
    assert "pip install triton==3.2.0 setuptools" in lines
    shown = "It showed the failure in 3 of 3 runs, each in a fresh process. It prints:"
    assert shown in lines
    assert lines[-1] == "Reduced by flacheck from `kernel`: 10 lines to 1, 5 compiles."


def test_an_issue_names_only_the_newer_releases_that_were_compiled() -> None:
    """Those before one that fails again are no remedy, and of others nothing is known."""
    compiles, fails = ReleaseVerdict(Verdict.COMPILES), ReleaseVerdict(Verdict.FAILS, SIGNATURE)
    verdicts = {"3.2.0": fails, "3.3.0": compiles, "3.4.0": fails, "3.5.0": compiles}
    verdicts |= {"3.7.0": compiles}
    table = {f"triton=={version}": verdict for version, verdict in verdicts.items()}
    lines = list(issue(replace(result(), original_table=table)))
    assert "Newer releases that compile the original: 3.5.0, 3.7.0." in lines
    assert not any("and newer" in line for line in lines)
    without = {FAILS: fails, "triton==3.3.0": compiles, "triton==3.4.0": fails}
    lines = list(issue(replace(result(), original_table=without)))
    assert not any("that compile the original" in line for line in lines)


def test_another_failure_is_told_apart_in_an_issue() -> None:
    """By its code and, where it has one, the compiler's function."""
    other = ReleaseVerdict(Verdict.FAILS, "FC302:llir:chooseStMatrix:b8ba2732")
    front = ReleaseVerdict(Verdict.FAILS, "FC101:ast:-:2b66fc33")
    table = {FAILS: other, "triton==3.4.0": front}
    lines = list(issue(replace(result(), original_table=table, exits={FAILS: 0})))
    assert "| 3.2.0 | fails differently (FC302, `chooseStMatrix`) | fails |" in lines
    assert "| 3.4.0 | fails differently (FC101) | compiles |" in lines


def test_an_issue_shows_the_short_script_and_attaches_the_other() -> None:
    """At most 15 lines compile the kernel; a newer release declares what it imports."""
    symptom = Symptom("boom", "triton 3.2.0 fails")
    short = render_short(result().reduction, symptom)
    assert short is not None
    lines = list(issue(replace(result(), short_script=short)))
    start = lines.index("```python") + 1
    shown = lines[start : lines.index("```", start)]
    assert shown == short.splitlines()
    assert len(shown) <= 15
    assert "The attached `repro.py` compiles the same kernel and checks the message:" in lines
    newer = replace(result(), cell=chain().cell("triton==3.3.0"))
    newer = replace(newer, original_table={"triton==3.3.0": ReleaseVerdict(Verdict.FAILS)})
    assert "pip install triton==3.3.0" in list(issue(newer))


def test_a_title_names_the_pass_where_the_message_names_no_cause() -> None:
    """A wrapper's words say nothing of the failure."""
    message = "Failures have been detected while processing an MLIR pass pipeline"
    wrapped = record("fails", code="FC205", signature="FC205:ttgir:-:1", message=message)
    failing = replace(result(), record=wrapped, failing_pass="NVWSInsertAref")
    assert title(failing) == "NVWSInsertAref fails (sm90, Triton 3.2.0)"
    told = record("fails", code="FC205", signature="FC205:ttgir:-:1", message="size 64 is odd")
    assert title(replace(failing, record=told)).startswith("size 64 is odd in NVWSInsertAref (")


def test_no_folder_of_the_machine_is_named() -> None:
    """Paths keep their last part alone."""
    assert nameless("at /home/me/x/k.py:3, a / b") == "at k.py:3, a / b"


def test_a_lost_neighbour_is_said_on_the_first_line() -> None:
    """It may be another bug than the original's."""
    lost = replace(result(), lost_neighbours=("triton==3.4.0",))
    first = next(issue(lost))
    assert first == "**Unlike the original on 3.4.0: this may be another bug than the original's.**"
    assert lost.to_json([])["lost_neighbours"] == ["triton==3.4.0"]


def test_a_failure_that_no_run_showed_is_no_issue(tmp_path: Path) -> None:
    """And an older reproduction's text does not stay beside it."""
    files.write(files.contents(result()), tmp_path)
    files.write(files.contents(replace(result(), runs=Runs(0, 3))), tmp_path)
    assert not (tmp_path / "issue.md").exists()


def test_a_long_error_is_cut_between_lines_and_without_the_modules() -> None:
    """Its beginning and its end stay, for the cause stands at either."""
    dumped = ["first <scratch>/cache-12/tmp.ptx", "module {", "  %0 = tt.load", "}"]
    said = "\n".join([*dumped, *(f"line {n}" for n in range(200)), "last"])
    lines = error(replace(result(), output=said))
    assert lines[0] == "first tmp.ptx"
    assert lines[1] == "line 0"
    assert lines[-1] == "last"
    assert "[142 lines left out: repro.py prints them]" in lines


def test_the_passes_that_a_release_printed_make_a_command() -> None:
    """Of the stage that begins with Triton's own IR; elsewhere the IR would not fit."""
    passes = "builtin.module(convert-triton-to-tritongpu{num-warps=4}, tritongpu-coalesce)"
    said = f'boom\n      pipeline: "{passes}",\n      verify_each: true'
    printed = list(issue(replace(result(), ttir="module {}\n", output=said)))
    assert f"triton-opt repro.ttir --pass-pipeline='{passes}'" in printed
    assert "      verify_each: true" not in printed
    later = said.replace("convert-triton-to-tritongpu{num-warps=4}, ", "")
    assert "triton-opt" not in "".join(issue(replace(result(), ttir="module {}\n", output=later)))


def test_the_ir_comes_with_the_call_that_compiles_it() -> None:
    """The options are those of the reduction."""
    with_ir = replace(result(), ttir="module {}\n", failing_pass="a-pass")
    lines = list(issue(with_ir))
    call = "triton.compile(\"repro.ttir\", target=GPUTarget('cuda', 90, 32), options={})"
    assert call in lines
    assert any(line.startswith("The compiler's last pass is `a-pass`; ") for line in lines)
