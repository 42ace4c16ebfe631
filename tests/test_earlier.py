"""A capture under one release stands for one under another where all that the package asks of Triton
is answered alike."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flacheck.guest.package_driver.asked import (
    MISSING,
    TritonAnswers,
    answered,
    fingerprint,
    same_answers,
)
from tests.test_drive import KERNELS, OPS, driven, package, pytestmark  # noqa: F401

ASKING = """
import torch, triton
from tiny.kernels import rare

def newest(x: torch.Tensor):
    if triton.__version__ >= "2":
        rare[(triton.cdiv(x.shape[0], 2),)](x, x, K=16)

def lacking(x: torch.Tensor):
    if not hasattr(triton, "no_such_thing"):
        rare[(1,)](x, x, K=32)
"""


def lines(folder: Path) -> list[Any]:
    read = map(json.loads, (folder / "l.jsonl").read_text().splitlines())
    return [line for line in read if "kernel" in line]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture, with what the package asked."""
    folder = package(tmp_path_factory.mktemp("earlier"), kernels=KERNELS, ops=OPS, asking=ASKING)
    driven(folder, asked=str(folder / "asked.json"))
    return folder


def again(first: Path, **changed: Any) -> tuple[list[Any], dict[str, Any]]:
    """The launches and the report of a second capture, beside the first with these changes in what
    was asked there."""
    asked = json.loads((first / "asked.json").read_text())
    folder = first / f"again-{len(list(first.iterdir()))}"
    folder.mkdir()
    for part, answers in changed.items():
        if isinstance(answers, dict):
            answers = {**asked[part], **answers}
        asked[part] = answers
    (folder / "earlier.json").write_text(json.dumps(asked))
    earlier = {
        "asked": str(folder / "earlier.json"),
        "launches": str(first / "l.jsonl"),
        "report": str(first / "r.json"),
    }
    output = folder / "l.jsonl"
    _, report = driven(
        first,
        output=str(output),
        report=str(folder / "r.json"),
        asked=str(folder / "asked.json"),
        earlier=[earlier],
    )
    return lines(folder), report


def test_a_capture_is_taken_over_where_all_is_the_same(first: Path) -> None:
    """The launches, the report and what was asked; the report says whose they are."""
    asked = json.loads((first / "asked.json").read_text())
    assert asked["reusable"]
    assert asked["called"]["triton no_such_thing"] == MISSING
    assert "triton __version__" in asked["called"]
    launches, report = again(first)
    assert launches == lines(first)
    header = json.loads((first / "l.jsonl").read_text().splitlines()[0])
    assert report["like"] == header["triton"]
    before = json.loads((first / "r.json").read_text())
    assert report["operators"] == before["operators"]


@pytest.mark.parametrize(
    "changed",
    [
        {"called": {"triton __version__": "'3.1.0'"}},
        {"called": {"triton no_such_thing": "function"}},
        {"called": {"triton.gone cdiv": "here"}},
        {"while_imported": {"triton language": "another"}},
        {"met": "other kernels"},
        {"reusable": False},
    ],
)
def test_a_capture_is_made_anew_where_something_differs(first: Path, changed: Any) -> None:
    """A version that is read, a name that is there now, kernels that are decorated otherwise."""
    launches, report = again(first, **changed)
    assert "like" not in report
    # The package is the same one, and so is what it launches.
    assert launches == lines(first)


def test_what_cannot_be_compared_is_never_the_same() -> None:
    """Imports during a call, versions of distributions, objects that nobody knows."""
    assert fingerprint(object()) == ""
    for question in ("import triton.tools", "distribution triton"):
        assert same_answers({question: "True"}, lambda module, name: "True") == question
    assert same_answers({"triton a": ""}, lambda module, name: "") == "triton a"
    assert same_answers({"triton a": "1", "triton b": "2"}, lambda module, name: "1") == "triton b"
    assert same_answers({"triton a": "1"}, lambda module, name: "1") is None
    assert answered("no.such.module", "a") == ""


def test_a_watched_module_is_a_module_still() -> None:
    """It can be copied, as Triton copies what kernels read, and tells what is read of it."""
    name = "triton_like"
    sys.modules[name] = module = ModuleType(name)
    try:
        answers = TritonAnswers()
        answers.watch(name)
        module.block = 16
        assert copy.deepcopy(module) is module and isinstance(module, ModuleType)
        exec("module.block, hasattr(module, 'gone')", {"module": module, "__name__": "shop.ops"})
        assert answers.answers == {f"{name} block": "16", f"{name} gone": MISSING}
    finally:
        del sys.modules[name]


def rounded(x: int) -> int:
    return x + twice(x)


def twice(x: int) -> int:
    return 2 * x


def test_the_code_of_a_function_tells_it_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """With that of the functions that it calls; its decorators and name for kernels do not count."""
    before = fingerprint(rounded)
    assert before and before == fingerprint(rounded)
    monkeypatch.setitem(globals(), "twice", lambda x: 3 * x)
    assert fingerprint(rounded) != before


def test_only_questions_of_the_package_are_noted() -> None:
    """What the standard library, torch and Triton itself ask says nothing."""
    answers = TritonAnswers()
    namespace = {"answers": answers, "__name__": "shop.ops"}
    exec("answers.read('triton', 'cdiv', 1); answers.missing('triton', 'x')", namespace)
    assert answers.answers == {"triton cdiv": "1", "triton x": MISSING}
    for asker in ("torch.utils", "triton.language", "inspect"):
        namespace["__name__"] = asker
        exec("answers.read('triton', 'jit', 1)", namespace)
    assert "triton jit" not in answers.answers
