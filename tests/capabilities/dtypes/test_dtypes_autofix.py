"""Casts as edits of a file, and the removal of casts that fail."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.capabilities.dtypes import autofix, expressions, following, judging
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesAnswer, DtypesQuestion
from flacheck.capabilities.dtypes.observation import (
    Mode,
    Observation,
    ObservedError,
    ObservedRun,
    ObservedSubject,
    Operand,
    Promotion,
)

MODE = Mode("fp16", "fp32")
HEAD = "import torch\n"


def promotion(file: Path, half_at: str, wide_at: str) -> DtypeFinding:
    """Return the finding of a file's last call or operation, with its operands at these places."""
    expressions.read_source.cache_clear()
    nodes = [
        n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call | ast.BinOp)
    ]
    [node] = [n for n in nodes if ast.unparse(n).startswith(("torch.", "x + "))][:1]
    half = Operand("float16", 2, (), at=half_at)
    wide = Operand("float32", 2, (), at=wide_at)
    place = expressions.place_of(str(file), node)
    event = Promotion(place, True, "forward", (half,), (wide,), "float16", "float32")
    run = ObservedRun(MODE, None, promotions=(event,))
    finding = judging.describe_promotion("layer:f", run, 0, lambda path: Path(path).name)
    assert finding is not None
    return finding


def cast(folder: Path, text: str, half_at: str, wide_at: str = "0") -> str | None:
    """The text of a file with the cast of its promotion; None without a cast."""
    file = folder / "layer.py"
    file.write_text(HEAD + text)
    change = autofix.make_edit(promotion(file, half_at, wide_at))
    if change is None:
        return None
    return autofix.apply_edits(HEAD + text, [change]).removeprefix(HEAD)


@pytest.mark.parametrize(
    ("text", "half_at", "new_text"),
    [
        (
            "y = torch.cat((cache_k[:, 32:], k[:, 32:]), 1)",
            "0.1",
            "y = torch.cat((cache_k[:, 32:], (half := k[:, 32:])), 1).to(half.dtype)",
        ),
        ("y = torch.stack([w, k])", "0.1", "y = torch.stack([w, k]).to(k.dtype)"),
        ("y = torch.cat(tensors=(w, k))", "tensors.1", "y = torch.cat(tensors=(w, k)).to(k.dtype)"),
        ("y = z = torch.where(m, w, k)", "2", "y = z = torch.where(m, w, k).to(k.dtype)"),
        (
            "y = torch.where(m, w, k if m else v)",
            "2",
            "y = torch.where(m, w, (half := k if m else v)).to(half.dtype)",
        ),
        ("y = torch.einsum('i,i', w, k)", "2", "y = torch.einsum('i,i', w, k).to(k.dtype)"),
        (
            "y = torch.cat(\n    (w,\n     k[:,\n       1]), 1)",
            "0.1",
            "y = torch.cat(\n    (w,\n     (half := k[:,\n       1])), 1).to(half.dtype)",
        ),
        # The program has a variable of that name.
        (
            "half = 2\ny = torch.cat((w, k[half:]))",
            "0.1",
            "half = 2\ny = torch.cat((w, (half_2 := k[half:]))).to(half_2.dtype)",
        ),
        ("y = x + f(k)", "1", "y = (x + (half := f(k))).to(half.dtype)"),
        (
            "y = [torch.where(m, w, k[i]) for i in n]",
            "2",
            "y = [torch.where(m, w, (half := k[i])).to(half.dtype) for i in n]",
        ),
    ],
)
def test_a_cast_is_to_the_dtype_of_the_half_operand(
    tmp_path: Path, text: str, half_at: str, new_text: str
) -> None:
    """The half operand may be an element of a list, a keyword or a computed value."""
    assert cast(tmp_path, text, half_at) == new_text


@pytest.mark.parametrize(
    ("text", "half_at"),
    [
        ("y = torch.cat((*parts, k))", "0.1"),
        ("y = torch.cat(parts)", "0.1"),
        ("y = torch.cat([w for w in parts])", "0.1"),
        # Python forbids an assignment in the iterable of a comprehension.
        ("y = [a for a in torch.where(m, w, k[1])]", "2"),
        ("class A:\n    y = [torch.where(m, w, k[i]) for i in n]", "2"),
    ],
)
def test_an_operand_that_the_source_does_not_show_gets_no_cast(
    tmp_path: Path, text: str, half_at: str
) -> None:
    """An operand without a text, or where Python forbids an assignment, has no cast."""
    assert cast(tmp_path, text, half_at) is None


def test_a_list_names_an_operand_that_has_no_text(tmp_path: Path) -> None:
    """The report names the list whose element is wide."""
    file = tmp_path / "layer.py"
    file.write_text(f"{HEAD}y = torch.cat(parts)")
    assert promotion(file, "0.0", "0.1").operand == "parts"


def test_a_cast_that_fails_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing cast is removed, its finding remains, and the other cast stays."""
    file = tmp_path / "layer.py"
    file.write_text(f"{HEAD}a = torch.stack([w, k])\nb = x + k\n")
    of_stack = promotion(file, "0.1", "0.0")
    [sum_node] = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.BinOp)]
    place = expressions.place_of(str(file), sum_node)
    half = expressions.place_of(str(file), sum_node.right)
    of_sum = replace(of_stack, place=place, half=half, line=2, operand="x", source="b = x + k")

    def observe(error: ObservedError | None) -> DtypesAnswer:
        subject = ObservedSubject("layer:f", (ObservedRun(MODE, error),))
        return DtypesAnswer(Observation((subject,), {}), (), ())

    def follow(question: DtypesQuestion, folder: Path, overlay: Path) -> DtypesAnswer:
        """Run a copy in which a cast of a stack fails."""
        if "stack([w, k]).to" in (overlay / "layer.py").read_text():
            return observe(ObservedError("forward", "AttributeError", "no dtype", ""))
        return observe(None)

    def judge(answer: DtypesAnswer, modes: object) -> list[DtypeFinding]:
        text = (tmp_path / "work/mended/layer.py").read_text()
        return [each for each in (of_stack, of_sum) if f"{each.source}" in text]

    monkeypatch.setattr(following, "follow", follow)
    question = DtypesQuestion((f"{file}:f",), (MODE,), None)  # type: ignore[arg-type]
    result = autofix.fix(question, observe(None), [of_stack, of_sum], tmp_path / "work", judge)
    assert "+b = (x + k).to(k.dtype)" in result.diff
    assert "stack" not in result.diff.replace(" a = torch.stack([w, k])", "")
    assert result.not_fixed == (of_stack,)
    assert result.remaining == (of_stack,)
