"""What is emitted: configurations that run everywhere, as Python and as files for FLA."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.analysis.fallbacks import Fallback
from flacheck.capabilities.autotune import emit
from flacheck.capabilities.autotune.emit import choices
from tests.made_tuned import CONFIGS, RESOURCES, fatal, good, result


def test_what_is_emitted_runs_everywhere(tmp_path: Path) -> None:
    """A configuration that one of two releases does not run is no choice; one that spills comes
    last.
    """
    here = result(tmp_path, good(resources={**RESOURCES, "spills": 4}), good(), good())
    there = result(tmp_path, good(), good(), fatal(), toolchain="triton==3.2.0")
    (choice,) = choices([here, there])
    assert [config["kwargs"]["BK"] for config in choice.configs] == [64, 32]
    assert choice.where == "triton==3.5.1, triton==3.2.0 on sm90"


def test_what_gains_nothing_is_emitted_only_where_nothing_else_runs(tmp_path: Path) -> None:
    """A second binary that asks for what the first asks for is left out."""
    same = {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3}
    (choice,) = choices([result(tmp_path, good(), good(), configs=(CONFIGS[0], same))])
    assert choice.configs == [CONFIGS[0]]
    other = result(tmp_path, fatal(), good(), configs=(CONFIGS[0], same))
    both = result(tmp_path, good(), good(), configs=(CONFIGS[0], same))
    (choice,) = choices([other, both])
    assert choice.configs == [same]


def test_a_fallback_stands_in_where_nothing_runs(tmp_path: Path) -> None:
    """If it is a configuration, and compiles at every place."""
    failing = result(tmp_path, fatal(), fatal())
    place = ((failing.toolchain, failing.target),)
    settings = {"BK": 64, "num_warps": 8, "num_stages": 3}
    use = Fallback(failing.kernel, None, *place[0], settings, {"num_warps": 4}, 1.0, places=place)
    other = replace(use, use={"dtype": "fp32"})
    elsewhere = replace(use, use={"num_warps": 2}, places=())
    (choice,) = choices([replace(failing, fallbacks=(other, elsewhere, use))])
    assert choice.configs == [{"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 3}]


def test_python_runs_as_pasted(tmp_path: Path) -> None:
    """Under a real Triton it is a list of its configurations, with the language's constants."""
    pytest.importorskip("triton")
    typed = {"kwargs": {"BK": 32, "ACC": {"dtype": "fp32"}}, "num_warps": 4, "num_stages": 2}
    text = "".join(emit.python([result(tmp_path, good(), good(), configs=(typed, CONFIGS[1]))]))
    names: dict[str, Any] = {}
    exec(compile(text, "pasted", "exec"), names)
    one, other = names["KERNEL_CONFIGS"]
    assert one.kwargs == {"BK": 32, "ACC": names["tl"].float32}
    assert (one.num_warps, one.num_stages) == (4, 2)
    assert other.kwargs == {"BK": 64}
    assert (other.num_warps, other.num_stages) == (8, 3)


@pytest.mark.parametrize(
    ("dtype", "spelt"),
    [
        ("bf16", "tl.bfloat16"),
        ("i1", "tl.int1"),
        ("i32", "tl.int32"),
        ("u8", "tl.uint8"),
        ("fp8e4nv", "tl.float8e4nv"),
    ],
)
def test_dtypes_are_spelt_as_in_the_language(tmp_path: Path, dtype: str, spelt: str) -> None:
    """`tl.int32`, not `i32`."""
    config = {"kwargs": {"ACC": {"dtype": dtype}}, "num_warps": 4, "num_stages": 2}
    text = "".join(emit.python([result(tmp_path, good(), configs=(config,))]))
    assert f"triton.Config({{'ACC': {spelt}}}, num_warps=4, num_stages=2)," in text


def test_the_files_for_fla_hold_keys_and_a_default(tmp_path: Path) -> None:
    """By the MD5 of the key as FLA writes it."""
    ((name, text),) = emit.fla([result(tmp_path, good(), good())])
    written = json.loads(text)
    assert name == "kernel.json"
    assert written["default_config"]["kwargs"] == {"BK": 32}
    key = [4, 64, False, "torch.bfloat16"]
    digest = hashlib.md5(b'[4,64,false,"torch.bfloat16"]').hexdigest()
    entry = {"autotune_key": key, "config": written["default_config"]}
    assert written["autotune_entries"] == {digest: entry}


def test_a_kernel_of_which_nothing_runs_has_no_file(tmp_path: Path) -> None:
    """FLA would launch what fails."""
    assert list(emit.fla([result(tmp_path, fatal(), fatal())])) == []
