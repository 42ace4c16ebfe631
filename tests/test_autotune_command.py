"""`flacheck autotune` as a person and a program use it: sources, codes, what is emitted."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flacheck.autotune.sources import Asked, gather
from flacheck.errors import MatrixError
from flacheck.inputs.expand import Selection
from flacheck.model import Purpose
from flacheck.store import Store
from tests.test_autotune import SCHEMA
from tests.test_cli import flacheck
from tests.test_launches import HEAD, HEADER, launch, source_id, write

OURS = "gated_delta_rule.chunk_local_cumsum"
DECLINES = (
    HEAD
    + """

@triton.jit
def picky(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= {limit})
    tl.store(x + tl.arange(0, BLOCK), n + {name})
"""
)


def recorded(
    path: Path, limit: int = 128, name: str = "0", lengths: tuple[int, ...] = (16,)
) -> Path:
    """A launches file of a program with one kernel of two configurations."""
    text = DECLINES.format(limit=limit, name=name)
    configs = [{"kwargs": {"BLOCK": size}, "num_warps": 1, "num_stages": 2} for size in (64, 128)]
    lines = [
        launch(
            text,
            id=f"{length:016x}",
            kernel="program:picky",
            qualname="picky",
            heuristics={},
            launch={
                "args": {"x": {"dtype": "i32", "align": 16}, "n": {"int": length}},
                "omitted": ["BLOCK"],
                "configs": configs,
                "keys": ["n"],
            },
        )
        for length in lengths
    ]
    return write(path, {**HEADER, "device": "NVIDIA H100 80GB HBM3"}, *lines)


def document(text: str) -> Any:
    """JSON that is as its schema says."""
    made = json.loads(text)
    jsonschema.validate(made, SCHEMA, jsonschema.Draft202012Validator)
    return made


def test_our_own_kernels_run_and_are_stored(tmp_path: Path) -> None:
    """Exit 0; a second time nothing is compiled; trials do not count as a scan's records."""
    command = ("autotune", "chunk_local_cumsum", "--target", "sm90", "--format", "json", "-j", "1")
    found = flacheck(*command, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    (result,) = document(found.stdout)["results"]
    assert result["kernel"] == OURS
    assert [c["outcome"] for c in result["configs"]] == ["runs"] * 4
    assert all(c["resources"]["registers"] and c["occupancy"] for c in result["configs"])
    again = flacheck(*command, cwd=tmp_path)
    assert json.loads(again.stdout) == json.loads(found.stdout)
    assert "4 cached" in again.stderr
    with Store.open(tmp_path / ".flacheck", create=False) as store:
        assert {run.purpose for run in store.runs()} == {Purpose.AUTOTUNE}
        assert list(store.latest()) == []


def test_a_launches_file_is_examined_without_its_program(tmp_path: Path) -> None:
    """One configuration is skipped, the other runs; by glob, by file, and by line."""
    recorded(tmp_path, limit=64)
    for source in (("picky", "--launches", "l.jsonl"), ("l.jsonl",), ("l.jsonl:2",)):
        found = flacheck("autotune", *source, "--format", "json", cwd=tmp_path)
        assert found.returncode == 0, found.stderr
        (result,) = document(found.stdout)["results"]
        assert [(c["outcome"], c["verdict"]) for c in result["configs"]] == [
            ("runs", "compiles"),
            ("skipped", "fails"),
        ]
        assert result["target"] == "sm90"
        assert result["ends"] is None


def test_a_trusted_file_may_hold_any_source(tmp_path: Path) -> None:
    """Without the user's word it is refused, by glob, by file and by line."""
    recorded(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    text = lines[1]["text"] + "\nimport os\n"
    write(tmp_path, lines[0], {**lines[1], "text": text, "source": source_id(text)})
    for line in (None, 2):
        asked = Asked("picky", Selection(targets=("sm90",)), file=tmp_path / "l.jsonl", line=line)
        with pytest.raises(MatrixError, match=r"import of os.*--trust"):
            gather(asked)
        assert [each.cell.kernel.name for each in gather(replace(asked, trust=True)).found] == [
            "program:picky"
        ]


def test_what_ends_a_run_is_a_finding(tmp_path: Path) -> None:
    """Exit 1, as for configurations that are all skipped, and keys that tune for every value."""
    recorded(tmp_path, name="tl.sum(n, 3)")
    found = flacheck("autotune", "l.jsonl", "--fallback-budget", "0", cwd=tmp_path)
    assert found.returncode == 1
    assert "the run ends: configuration 1 of 2 fails with FC" in found.stdout
    recorded(tmp_path, limit=32)
    found = flacheck("autotune", "l.jsonl", "--fallback-budget", "0", cwd=tmp_path)
    assert found.returncode == 1
    assert "every configuration is skipped" in found.stdout
    recorded(tmp_path, lengths=tuple(range(16, 160, 16)))
    found = flacheck("autotune", "l.jsonl", "--format", "json", cwd=tmp_path)
    (result,) = document(found.stdout)["results"]
    assert found.returncode == 1
    assert [key["fault"] for key in result["keys"]] == ["storm"]
    assert result["cost"]["keys"] == 9
    assert result["keys"][0]["file"] is None


def test_python_and_fla_are_emitted(tmp_path: Path) -> None:
    """Only what runs; the variables that FLA wants are said, the files lie where they say."""
    recorded(tmp_path, limit=64)
    found = flacheck("autotune", "l.jsonl", "--emit", "python", cwd=tmp_path)
    assert "triton.Config({'BLOCK': 64}, num_warps=1, num_stages=2)," in found.stdout
    assert "128" not in found.stdout
    found = flacheck("autotune", "l.jsonl", "--emit", "fla", "-o", "out", cwd=tmp_path)
    assert f"FLA_CONFIG_DIR={tmp_path / 'out'}" in found.stdout
    assert "FLA_CACHE_MODE=full" in found.stdout
    assert json.loads((tmp_path / "out" / "picky.json").read_text())["default_config"][
        "kwargs"
    ] == {"BLOCK": 64}
    recorded(tmp_path, limit=32)
    found = flacheck("autotune", "l.jsonl", "--emit", "fla", "--fallback-budget", "0", cwd=tmp_path)
    assert found.returncode == 2
    assert "nothing to emit" in found.stderr


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("nothing_of_this_name",), 2, "no kernel matches"),
        (
            ("x", "--package", "a==1", "--matrix", "quick"),
            2,
            "--package and --matrix were given: name one of them",
        ),
        (("missing.jsonl",), 2, "cannot be read"),
        (("l.jsonl:1",), 2, "no launch of an autotuned kernel on this line"),
        (("l.jsonl:99",), 2, "no launch of an autotuned kernel on this line"),
        ((OURS, "--format", "github"), 2, "allowed are table, json, markdown"),
        ((OURS, "--emit", "yaml"), 2, "expected fla or python"),
        ((OURS, "--dtype", "bf61"), 2, "unknown dtype"),
        ((OURS, "--target", "sm1"), 2, "unknown target"),
        ((OURS, "--dtype", "i8"), 4, ""),
    ],
)
def test_what_cannot_be_examined_is_said(
    tmp_path: Path, command: tuple[str, ...], code: int, words: str
) -> None:
    """With the code that every command has for it, and no traceback."""
    recorded(tmp_path)
    found = flacheck("autotune", *command, cwd=tmp_path)
    assert (found.returncode, "Traceback" in found.stderr) == (code, False), found.stderr
    assert words in found.stderr


def test_threads_that_no_block_has_are_said_before_compiling(tmp_path: Path) -> None:
    """And the release still shows what it makes of them."""
    file = recorded(tmp_path)
    file.write_text(file.read_text().replace('"num_warps": 1,', '"num_warps": 64,'))
    found = flacheck("autotune", "l.jsonl", "--fallback-budget", "0", cwd=tmp_path)
    first = found.stderr.splitlines()[0]
    assert "before compiling: program:picky on sm90: num_warps=64 is 2048 threads" in first
    assert "runs" not in found.stdout.splitlines()[0]


needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="timing needs torch"
)


@needs_torch
def test_without_a_card_nothing_is_timed(tmp_path: Path) -> None:
    """Said before anything is compiled."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a card")
    found = flacheck("autotune", OURS, "--bench", cwd=tmp_path)
    assert found.returncode == 2
    assert "--bench needs a GPU" in found.stderr
