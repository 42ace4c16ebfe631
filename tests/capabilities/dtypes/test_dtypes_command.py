"""Transcripts of `flacheck dtypes`: output, exit codes and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import flacheck
from flacheck.cli import app
from flacheck.errors import Exit
from tests.captured import needs_torch
from tests.mixed_layers import CONTRACT, line_of, write
from tests.schemas import validate_json

pytestmark = needs_torch
TWICE = "k = k + self.gain; k = k * self.gain"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store results below the test's own folder."""
    monkeypatch.chdir(tmp_path)


def run(target: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["dtypes", target, *options])


@pytest.mark.slow
def test_the_kernels_behind_an_assertion_and_the_cures(tmp_path: Path) -> None:
    """The finding names the kernels beyond the assertion, and modes that leave no findings."""
    file = write(tmp_path, "mixed", TWICE, CONTRACT)
    result = run(f"{file}:Mixer", "--autocast", "fp16", "--format", "json")
    assert result.exit_code == Exit.FINDINGS, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    validate_json("dtypes", value)
    assert [each["line"] for each in value["findings"]] == [line_of(file, TWICE)]
    first = value["findings"][0]
    assert first["trips"]["source"] == CONTRACT
    # The assertion protects these kernels from the wide operand.
    assert first["kernels"] == []
    beyond = {(each["kernel"], each["argument"]) for each in first["beyond"]}
    assert beyond == {("mixed:mix", "k"), ("mixed:mix_back", "k")}
    assert first["beyond"][0]["shared"]["limit"] == 232_448
    # Modes that work come first.
    assert [cure["findings_left"] > 0 for cure in value["cures"]] == [False, True]
    findings_left = {cure["cure"]: cure["findings_left"] for cure in value["cures"]}
    assert findings_left["bf16 autocast, fp32 parameters"]
    assert findings_left["bf16 autocast, bf16 parameters"] == 0


def test_several_targets_in_one_call(tmp_path: Path) -> None:
    """Targets of two files are followed at once, and only the promotion is reported."""
    wide = write(tmp_path, "widened", "k = k + self.gain", CONTRACT)
    clean = write(tmp_path, "clean", "k = k + 1", CONTRACT)
    targets = [f"{wide}:Mixer", f"{clean}:Mixer", f"{clean}:mixed"]
    result = flacheck.dtypes(targets, autocast="fp16", costs=False)
    assert [(each.subject, each.line) for each in result.findings] == [
        ("widened:Mixer", line_of(wide, "k = k + self.gain"))
    ]
    assert result.not_followed == ()
    assert sorted(result.launch_counts) == ["clean:Mixer", "clean:mixed", "widened:Mixer"]
    assert all(result.launch_counts[name] for name in ("clean:Mixer", "clean:mixed"))


def test_another_dtype_cures_an_overflow(tmp_path: Path) -> None:
    """A constant beyond float16 fits into bf16."""
    file = write(tmp_path, "masked", "k = k + (-1e9)")
    result = run(f"{file}:Mixer", "--autocast", "fp16", "--format", "json")
    assert result.exit_code == Exit.FINDINGS, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    assert [each["code"] for each in value["findings"]] == ["FC704"]
    assert value["cures"] == [
        {"cure": "bf16 autocast, fp32 parameters", "findings_left": 0},
        {"cure": "bf16 autocast, bf16 parameters", "findings_left": 0},
    ]


def test_an_annotation_names_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a workflow has the file and the line of the promotion."""
    promotion = "k = k + self.gain"
    file = write(tmp_path, "mixed", promotion)
    monkeypatch.chdir(tmp_path)
    result = run("mixed.py:Mixer", "--autocast", "fp16", "--format", "github")
    assert result.exit_code == Exit.FINDINGS
    assert f"::error file=mixed.py,line={line_of(file, promotion)}," in result.stdout
    assert "self.gain" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("mixed.py:Mixer", "--arg", "hidden_size"), "expected NAME=VALUE"),
        (("mixed.py:Mixer", "--params", "fp8"), "--params fp8: expected"),
        (("mixed.py:Mixer", "--autocast", "tf32"), "--autocast tf32: expected"),
        (("mixed.py:Mixer", "--autocast", "off"), "has no half dtype to break"),
        (("mixed.py:Mixer", "--format", "junit"), "unknown format"),
        ((), "name a TARGET"),
        (("a:B", "train"), "expected TARGETs: MODULE:NAME or FILE.py:NAME"),
        (("train.py:A", "sub/train.py:B"), "have the same name"),
        (("a:B", "c:D", "--arg", "T=64"), "--arg is for one TARGET"),
        (("--arg", "T=64", "--package", "fla==1"), "--arg is for one TARGET"),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], message: str) -> None:
    """Contradictory options are refused before a process starts."""
    result = CliRunner().invoke(app, ["dtypes", *options])
    assert result.exit_code == Exit.USAGE
    assert message in result.stderr


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("mixed.py:Nothing", 2, "has no 'Nothing'; it defines"),
        ("mixed.py:mix", 2, "is a Triton kernel: name the function"),
        ("mixed.py:Mix", 2, "is an autograd function: name the function"),
        ("mixed.py:torch", 2, "is neither a module, a function nor a model's config"),
        ("no_such_module:Mixer", 2, "there is no module 'no_such_module'"),
        ("mixed.py:Needy", 2, "its constructor raised"),
        ("mixed.py:Plain", 3, "launches no Triton kernel"),
    ],
)
def test_a_target_that_cannot_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, code: int, message: str
) -> None:
    """The message names the problem of the target, with its exit code."""
    write(tmp_path, "mixed")
    monkeypatch.chdir(tmp_path)
    result = run(target, "--autocast", "fp16")
    assert result.exit_code == code
    assert message in result.stderr
