"""The files of a reproduction."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.capabilities.repro.output import files
from flacheck.capabilities.repro.output.issue import error, issue, title
from flacheck.capabilities.repro.output.result import Effort, Reproduced, Runs
from flacheck.capabilities.repro.output.script import render, render_short
from flacheck.capabilities.repro.output.symptom import Symptom
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.errors import UsageError
from flacheck.model import Verdict
from tests.made_records import record
from tests.made_specimens import FAILS, POINTER, SIGNATURE, chain, specimen
from tests.schemas import validate_json


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
        changes=("num_warps: 8 → the compiler's default, under which the same failure shows",),
    )


def test_what_is_written_follows_the_schema_and_names_no_machine(tmp_path: Path) -> None:
    """All files are written, and none contains a path of the machine."""
    paths = files.write(files.contents(result()), tmp_path / "out")
    names = ["repro.py", "original.py", "issue.md", "log.txt", "repro.json"]
    about = json.loads((tmp_path / "out/repro.json").read_text())
    assert [file.name for file in paths] == names
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(names)
    validate_json("repro", about)
    assert about["files"] == names
    for file in paths:
        assert "/home/" not in file.read_text()
        assert "/project/" not in file.read_text()


def test_the_json_says_what_came_of_the_reduction() -> None:
    """The JSON has sizes, cost, runs and the verdict of each release."""
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
    """A release without a verdict for the reduction is null."""
    partial = replace(result(), reduced_table={}, exits={})
    about = partial.to_json(["repro.json"])
    validate_json("repro", about)
    assert [entry["reduced"] for entry in about["versions"]] == [None, None]
    assert [entry["exit"] for entry in about["versions"]] == [None, None]


def test_a_release_that_was_not_reached_has_a_row() -> None:
    """An unreached release has a row without a verdict."""
    partial = replace(result(), releases=(*result().releases, "triton==3.5.0"))
    about = partial.to_json(["repro.json"])
    validate_json("repro", about)
    missing = {"toolchain": "triton==3.5.0", "original": None, "reduced": None, "exit": None}
    assert about["versions"][-1] == missing
    assert "| 3.5.0 | not reached | not reached |" in list(issue(partial))


def test_files_of_an_older_reproduction_do_not_stay_beside_a_newer_script(tmp_path: Path) -> None:
    """Writing drafts removes the files of an older reproduction."""
    files.write(files.contents(replace(result(), ttir="module {}\n")), tmp_path)
    drafts = {files.SCRIPT: "# a draft\n", files.ORIGINAL: "# whole\n"}
    files.write(drafts, tmp_path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == drafts


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    """The message names the option to use."""
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match=r"out: cannot be written .* -o"):
        files.write({"a": ""}, tmp_path / "out")


def test_an_issue_says_where_a_reduction_does_not_show_the_failure() -> None:
    """The issue names a release on which only the original fails."""
    lines = list(issue(replace(result(), exits={FAILS: 1, "triton==3.4.0": 1})))
    sentence = "The original kernel also fails in this way on 3.2.0; "
    assert sentence + "the reproducer does not show it there." in lines
    assert "| 3.2.0 | fails | does not show it |" in lines


def test_an_issue_keeps_the_lines_of_python_in_an_error() -> None:
    """A dumped module is removed from the error, and similar Python lines stay."""
    log = (
        "    module = src.make_ir(target)\nmodule attributes {ttg.x = 1} {\n  %0 = tt.load\n}\nboom"
    )
    lines = list(issue(replace(result(), output=log)))
    excerpt = lines[lines.index("    module = src.make_ir(target)") :][:3]
    assert excerpt == ["    module = src.make_ir(target)", "boom", "```"]


def test_an_issue_has_what_a_maintainer_asks_for() -> None:
    """The title has the error, GPU and release, and the sections are those of Triton's form."""
    outcome = replace(
        result(), output='Traceback\n  File "/home/me/triton/compiler/compiler.py"\nboom'
    )
    lines = list(issue(outcome))
    assert lines[0] == "# boom in reshapeOuts (sm90, Triton 3.2.0)"
    assert lines[2].startswith("<!-- compiler bug. ")
    assert lines[2].endswith("https://github.com/triton-lang/triton/issues/new?template=bug.yml")
    assert "Newer releases that compile the original: 3.4.0." in lines
    assert [line for line in lines if line.startswith("## ")] == [
        "## Describe the bug",
        "## Environment details",
    ]
    excerpt = lines[lines.index("Traceback") :][:3]
    assert excerpt == ["Traceback", '  File "triton/compiler/compiler.py"', "boom"]
    assert "- Triton: 3.2.0" in lines
    assert "- num_warps: 8 → the compiler's default, under which the same failure shows" in lines
    assert "| 3.2.0 | fails | fails |" in lines
    assert "| 3.4.0 | compiles | compiles |" in lines
    assert "pip install triton==3.2.0 setuptools" in lines
    sentence = "It showed the failure in 3 of 3 runs, each in a fresh process. It prints:"
    assert sentence in lines
    assert lines[-1] == "Reduced by flacheck from `kernel`: 10 lines to 1, 5 compiles."


def test_an_issue_names_only_the_newer_releases_that_were_compiled() -> None:
    """Only releases after the last failing one are named as a remedy."""
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
    """Another failure is named by its code and the compiler's function."""
    other = ReleaseVerdict(Verdict.FAILS, "FC302:llir:chooseStMatrix:b8ba2732")
    front = ReleaseVerdict(Verdict.FAILS, "FC101:ast:-:2b66fc33")
    table = {FAILS: other, "triton==3.4.0": front}
    lines = list(issue(replace(result(), original_table=table, exits={FAILS: 0})))
    assert "| 3.2.0 | fails differently (FC302, `chooseStMatrix`) | fails |" in lines
    assert "| 3.4.0 | fails differently (FC101) | compiles |" in lines


def test_an_issue_shows_the_short_script_and_attaches_the_other() -> None:
    """The issue quotes a script of at most 15 lines and attaches the full one."""
    symptom = Symptom("boom", "triton 3.2.0 fails")
    short = render_short(result().reduction, symptom)
    assert short is not None
    lines = list(issue(replace(result(), short_script=short)))
    start = lines.index("```python") + 1
    code = lines[start : lines.index("```", start)]
    assert code == short.splitlines()
    assert len(code) <= 15
    assert "The attached `repro.py` compiles the same kernel and checks the message:" in lines
    newer = replace(result(), cell=chain().cell("triton==3.3.0"))
    newer = replace(newer, original_table={"triton==3.3.0": ReleaseVerdict(Verdict.FAILS)})
    assert "pip install triton==3.3.0" in list(issue(newer))


def test_a_title_names_the_pass_where_the_message_names_no_cause() -> None:
    """If the message has no cause, the title names the pass."""
    message = "Failures have been detected while processing an MLIR pass pipeline"
    without_cause = record("fails", code="FC205", signature="FC205:ttgir:-:1", message=message)
    failing = replace(result(), record=without_cause, failing_pass="NVWSInsertAref")
    assert title(failing) == "NVWSInsertAref fails (sm90, Triton 3.2.0)"
    with_cause = record(
        "fails", code="FC205", signature="FC205:ttgir:-:1", message="size 64 is odd"
    )
    assert title(replace(failing, record=with_cause)).startswith(
        "size 64 is odd in NVWSInsertAref ("
    )


def test_a_lost_neighbour_is_said_on_the_first_line() -> None:
    """The first line warns that this may be another bug."""
    outcome = replace(result(), lost_neighbours=("triton==3.4.0",))
    first = next(issue(outcome))
    assert first == "**Unlike the original on 3.4.0: this may be another bug.**"
    assert outcome.to_json([])["lost_neighbours"] == ["triton==3.4.0"]


def test_a_failure_that_no_run_showed_is_no_issue(tmp_path: Path) -> None:
    """Without a run that fails, issue.md is not written."""
    files.write(files.contents(result()), tmp_path)
    files.write(files.contents(replace(result(), runs=Runs(0, 3))), tmp_path)
    assert not (tmp_path / "issue.md").exists()


def test_a_long_error_is_cut_between_lines_and_without_the_modules() -> None:
    """A long error keeps its beginning and its end."""
    dump = ["first <scratch>/cache-12/tmp.ptx", "module {", "  %0 = tt.load", "}"]
    log = "\n".join([*dump, *(f"line {n}" for n in range(200)), "last"])
    lines = error(replace(result(), output=log))
    assert lines[0] == "first tmp.ptx"
    assert lines[1] == "line 0"
    assert lines[-1] == "last"
    assert "[142 lines left out: repro.py prints them]" in lines


def test_the_passes_that_a_release_printed_make_a_command() -> None:
    """The printed pipeline becomes a triton-opt command if it starts from Triton's IR."""
    passes = "builtin.module(convert-triton-to-tritongpu{num-warps=4}, tritongpu-coalesce)"
    log = f'boom\n      pipeline: "{passes}",\n      verify_each: true'
    lines = list(issue(replace(result(), ttir="module {}\n", output=log)))
    assert f"triton-opt repro.ttir --pass-pipeline='{passes}'" in lines
    assert "      verify_each: true" not in lines
    later = log.replace("convert-triton-to-tritongpu{num-warps=4}, ", "")
    assert "triton-opt" not in "".join(issue(replace(result(), ttir="module {}\n", output=later)))


def test_the_ir_comes_with_the_call_that_compiles_it() -> None:
    """The issue has the call that compiles the IR, with the reduction's options."""
    with_ir = replace(result(), ttir="module {}\n", failing_pass="a-pass")
    lines = list(issue(with_ir))
    call = "triton.compile(\"repro.ttir\", target=GPUTarget('cuda', 90, 32), options={})"
    assert call in lines
    assert any(line.startswith("The compiler's last pass is `a-pass`; ") for line in lines)
