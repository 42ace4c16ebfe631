"""A user's training script, followed through its module calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flacheck.capabilities.dtypes.scripts import words_of
from flacheck.capabilities.dtypes.starting import script_name
from flacheck.cli import app
from flacheck.errors import Exit, UsageError
from tests import training_script
from tests.captured import needs_torch
from tests.mixed_layers import line_of
from tests.schemas import validate_json

RAISES = "raise ValueError('no data in ./corpus')"
NO_MODULE = "import torch\nprint(torch.zeros(2, device='cuda') + 1)"
WITHOUT_AUTOCAST = "import torch\ntorch.nn.Linear(4, 4).cuda()(torch.zeros(2, 4, device='cuda'))"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["dtypes", *words])


@pytest.mark.slow
@needs_torch
def test_a_training_script_is_followed_as_it_is(tmp_path: Path) -> None:
    """The script runs in its own mode and with its own arguments, in both passes."""
    training_script.write(tmp_path, status=3)
    result = run("--format", "json", "--", "train.py", "--dtype", "bfloat16")
    assert result.exit_code == Exit.FINDINGS, result.output
    value = json.loads(result.stdout)
    validate_json("dtypes", value)
    assert value["modes"] == ["bf16 autocast, fp32 parameters"]
    (finding,) = value["findings"]
    line = line_of(tmp_path / "mixed.py", training_script.PROMOTION)
    assert (finding["file"], finding["line"]) == ("mixed.py", line)
    assert (finding["operand"], finding["parameter"]) == ("self.gain", "gain")
    kernels = {each["kernel"] for each in finding["kernels"]}
    assert kernels == {"mixed:mix", "mixed:mix_back"}
    assert value["followed"] == {"train.py": 2}


@needs_torch
@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (RAISES, Exit.INCOMPLETE, "raised ValueError: no data in ./corpus, before it called"),
        (NO_MODULE, Exit.INCOMPLETE, "called no torch.nn.Module with parameters"),
        (WITHOUT_AUTOCAST, Exit.USAGE, "give --autocast fp16"),
    ],
)
def test_a_script_that_cannot_be_followed(
    tmp_path: Path, text: str, code: int, message: str
) -> None:
    """A script without a module call gives one message and its exit code."""
    (tmp_path / "odd.py").write_text(text)
    result = run("--", "odd.py")
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--", "absent.py"), "there is no file absent.py"),
        (("--shared", "--", "train.py"), "--shared needs a TARGET"),
        (("--params", "bf16", "--", "train.py"), "--params needs a TARGET"),
        (("--arg", "T=64", "--", "train.py"), "--arg is for one TARGET"),
        (("a:B", "--arg", "T=64", "c:D"), "--arg is for one TARGET"),
        (("a:B", "train"), "expected TARGETs (MODULE:NAME or FILE.py:NAME)"),
        (("train.py:A", "sub/train.py:B"), "have the same name"),
    ],
)
def test_words_that_make_no_sense(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    """Contradictory arguments are refused before the script runs."""
    (tmp_path / "train.py").write_text("raise SystemExit(9)")
    result = run(*words)
    assert (result.exit_code, message in result.stderr) == (Exit.USAGE, True), result.stderr


def test_how_a_script_is_named(tmp_path: Path) -> None:
    """A script is named with or without its interpreter, or as a module."""
    (tmp_path / "train.py").write_text("")
    assert words_of(["python", "train.py", "--lr", "1"]) == ("train.py", "--lr", "1")
    assert words_of(["python3", "-m", "pkg.train"]) == ("-m", "pkg.train")
    assert words_of(["-m", "pkg.train", "x"]) == ("-m", "pkg.train", "x")
    assert words_of(["layer.py:Mixer"]) == words_of(["pkg.layers:Mixer"]) == words_of([]) == ()
    assert script_name(("sub/train.py", "x")) == "train.py"
    assert script_name(("-m", "pkg.train")) == "pkg.train"
    with pytest.raises(UsageError, match=r"there is no file x\.py"):
        words_of(["x.py"])
