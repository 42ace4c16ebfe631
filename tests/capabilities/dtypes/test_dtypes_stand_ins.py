"""Layers that import a missing compiled package, followed with a stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flacheck.capabilities.dtypes.missing_modules import group_by_missing, match_missing
from flacheck.capabilities.dtypes.observation import Observation, ObservedError, ObservedSubject
from flacheck.cli import app
from flacheck.errors import Exit
from tests import needy_layers
from tests.captured import needs_torch
from tests.schemas import validate_json


def follow(target: str, *options: str) -> tuple[int, Any]:
    """Return the exit code, with the report or else stderr."""
    command = ["dtypes", target, "--autocast", "fp16", "--format", "json", *options]
    result = CliRunner().invoke(app, command)
    if not result.stdout.strip():
        return result.exit_code, result.stderr
    value = json.loads(result.stdout)
    validate_json("dtypes", value)
    return result.exit_code, value


@needs_torch
@pytest.mark.parametrize("name", ["Needs", "Says"])
def test_a_layer_is_followed_past_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The report names the stand-in, for a call of None and for a failing import."""
    monkeypatch.chdir(tmp_path)
    needy_layers.write(tmp_path)
    code, value = follow(f"needy.py:{name}")
    assert code == Exit.OK
    assert value["stand_ins"] == {f"needy:{name}": ["fast_mixing"]}
    assert value["followed"] == {f"needy:{name}": 2}


@needs_torch
def test_a_stand_in_is_judged_like_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A promoted operand of a stand-in is a finding."""
    monkeypatch.chdir(tmp_path)
    needy_layers.write(tmp_path, "k = k * self.gain")
    code, value = follow("needy.py:Needs")
    (finding,) = value["findings"]
    assert code == Exit.FINDINGS
    assert (finding["operand"], finding["kernel"]) == ("self.gain", "fast_mixing:mix_fn")
    assert finding["kernels"][0]["dtypes"] == {"0": "fp16", "1": "fp32", "2": "fp32"}


@needs_torch
def test_what_works_without_gets_no_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer with its own fallback has no stand-in."""
    monkeypatch.chdir(tmp_path)
    needy_layers.write(tmp_path)
    code, value = follow("needy.py:Own")
    assert (code, value["stand_ins"]) == (Exit.OK, {})


@needs_torch
def test_a_stand_in_is_no_answer_to_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call without a tensor fails, and the message names the missing module."""
    monkeypatch.chdir(tmp_path)
    needy_layers.write(tmp_path)
    code, message = follow("needy.py:Hopeless")
    assert code == Exit.USAGE
    assert "No module named 'fast_mixing'" in message


def test_errors_name_modules_as_people_spell_them() -> None:
    """Spaces, dashes and capitals of a module's name do not matter."""
    missing = ("flash_attn", "mamba_ssm", "tilelang")
    text = "Please install Flash Attention via `pip install flash-attn` first"
    assert match_missing(text, missing) == ("flash_attn",)
    assert match_missing("Install `mamba_ssm` with Mamba-3 support.", missing) == ("mamba_ssm",)
    assert match_missing("shapes do not match", missing) == ()
    assert match_missing("an operation is not callable", ("on", "call")) == ()


def test_a_function_that_is_none_belongs_to_the_module_that_asked() -> None:
    """The innermost frame, else the subject's module, decides which import is missing."""
    trace = 'File "/x/pkg/layers/mamba.py", line 2\nFile "/x/pkg/ops/scan.py", line 1'
    error = ObservedError("forward", "TypeError", "'NoneType' object is not callable", trace)
    subject = ObservedSubject("pkg.layers.mamba:Mamba", (), errors=(error,))
    inner = Observation(
        (subject,), {}, missing={"selective": ("pkg.ops.scan",), "elsewhere": ("pkg.other",)}
    )
    assert group_by_missing(inner) == {("selective",): [subject.name]}
    own = Observation(
        (subject,), {}, missing={"selective": ("pkg.layers.mamba",), "elsewhere": ("pkg.other",)}
    )
    assert group_by_missing(own) == {("selective",): [subject.name]}
    none = Observation((subject,), {}, missing={"elsewhere": ("pkg.other",)})
    assert group_by_missing(none) == {}
