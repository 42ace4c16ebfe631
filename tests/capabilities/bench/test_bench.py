"""Timing an operator's forms: the winner from each length on, outputs that differ, and records."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import flacheck
from flacheck import EmptySelection, Exit, UsageError, reports
from flacheck.capabilities.bench import measuring
from flacheck.capabilities.bench.measuring import FormBench, Importable
from flacheck.capabilities.bench.results import FormsCompared, FormTiming, Spread, Winner, winners
from flacheck.errors import IncompleteError
from flacheck.reports import bench as bench_report
from flacheck.reports.document import Display
from tests.schemas import validate_json

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="timing needs torch"
)

# The recurrence in two right forms and a wrong one; one form whose backward is missing.
PACKAGE = '''
import torch

def chunk_toy(q, k, v, g=None, output_final_state=False):
    """Sums of keys and values.

    Args:
        q (torch.Tensor):
            queries of shape `[B, T, H, K]`.
        k (torch.Tensor):
            keys of shape `[B, T, H, K]`.
        v (torch.Tensor):
            values of shape `[B, T, HV, V]`.
        g (torch.Tensor):
            log decays of shape `[B, T, H]`.
    """
    G = g.cumsum(1).movedim(1, 2)
    age = G[..., :, None] - G[..., None, :]
    T = q.shape[1]
    scores = torch.einsum("bthk,bshk->bhts", q, k) * age.tril().exp() * torch.ones(T, T).tril()
    return torch.einsum("bhts,bshv->bthv", scores, v), None

def fused_recurrent_toy(q, k, v, gk=None):
    """gk (torch.Tensor): log decays of shape [B, T, H]."""
    h, outputs = 0.0, []
    for t in range(q.shape[1]):
        h = h * gk[:, t, :, None, None].exp() + k[:, t, :, :, None] * v[:, t, :, None]
        outputs.append((h * q[:, t, :, :, None]).sum(-2))
    return torch.stack(outputs, 1)

def parallel_toy(q, k, v):
    raise NotImplementedError("no gates")

def chunk_wrong(q, k, v):
    return q * 2.0

def parallel_wrong(q, k, v):
    return q.detach() * 3.0

def chunk_other(*args):
    pass

def _chunk_private(q):
    pass
'''


def timing(form: str, length: int, forward: float, backward: float | None = 1.0) -> FormTiming:
    """A timing of the operator `toy`."""
    spread = None if backward is None else Spread(backward, backward, backward)
    return FormTiming(
        operator="toy",
        form=form,
        function=f"toy:{form}_toy",
        batch=1,
        length=length,
        forward=Spread(forward, forward, forward),
        backward=spread,
    )


def test_the_winner_is_the_fastest_at_every_longer_length() -> None:
    """A form that wins only below some length is not the winner."""
    timings = [timing("chunk", 64, 2.0), timing("fused_recurrent", 64, 1.0)]
    timings += [timing("chunk", 256, 2.0), timing("fused_recurrent", 256, 3.0)]
    timings += [timing("chunk", 1024, 3.0), timing("fused_recurrent", 1024, 9.0)]
    assert winners(timings) == [Winner("toy", 1, "chunk", 256, True)]


def test_backward_counts_where_every_form_has_one() -> None:
    """If one form has no backward, the forms are compared by their forward."""
    both = [timing("chunk", 64, 1.0, 9.0), timing("parallel", 64, 2.0, 1.0)]
    assert winners(both) == [Winner("toy", 1, "parallel", 64, True)]
    forward = [timing("chunk", 64, 1.0, 9.0), timing("parallel", 64, 2.0, None)]
    assert winners(forward) == [Winner("toy", 1, "chunk", 64, False)]


def test_a_length_at_which_a_form_failed_decides_nothing() -> None:
    """A form without competitors at a length is not a winner."""
    timings = [timing("chunk", 64, 2.0), timing("parallel", 64, 1.0), timing("chunk", 256, 2.0)]
    assert winners(timings) == [Winner("toy", 1, "parallel", 64, True)]
    assert winners([timing("chunk", 64, 2.0)]) == []


def document_of(timings: Sequence[FormTiming], **changes: Any) -> FormsCompared:
    """A document of an H100."""
    fields: dict[str, Any] = {"about": "toy", "gpu": "H100", "triton": "3.6.0", "torch": "2.11.0"}
    fields |= {"dtype": "bf16", "heads": 4, "head_size": 64, "repeats": 3, "tolerance": 0.02}
    rows = list(timings)
    fields |= {"timings": rows, "winners": winners(rows), "notes": []}
    return FormsCompared(**fields, **changes)


@pytest.mark.parametrize("format", ["table", "markdown", "html"])
def test_a_report_names_the_winner(format: str) -> None:
    """Every format has the winner by length."""
    timings = [timing(form, n, 1.0) for n in (64, 256) for form in ("chunk", "parallel")]
    report = bench_report.report(document_of(timings))
    text = "".join(reports.render(format, report, Display()))
    assert "chunk wins from length 64 on" in text


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the package, as if installed."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text(PACKAGE)
    importable = Importable(("toy",), str(tmp_path))
    monkeypatch.setattr("flacheck.api.bench.importable", lambda spec: importable)
    return "toy"


SMALL: dict[str, Any] = {"heads": 2, "head_size": 4, "dtype": "fp32", "repeats": 1, "device": "cpu"}


@needs_torch
def test_the_forms_of_a_package_are_drawn_timed_and_compared(toy: str) -> None:
    """A wrong form is a finding, and a failing one has its message."""
    result = flacheck.bench(package=toy, op="*", length=(3, 5), batch=2, **SMALL)
    document = result
    rows = {(t.function, t.length): t for t in document.timings}
    right = rows["toy:fused_recurrent_toy", 5]
    assert right.difference is not None
    assert right.difference < document.tolerance
    assert (right.compared_with, right.backward_failed, right.failed) == ("chunk", None, None)
    assert right.forward is not None
    assert right.backward is not None
    assert rows["toy:parallel_toy", 3].failed == "NotImplementedError: no gates"
    assert rows["toy:chunk_other", 3].failed == "ValueError: it names no argument that is a tensor"
    wrong = rows["toy:parallel_wrong", 3]
    assert wrong.difference == pytest.approx(0.5)
    assert wrong.backward_failed is not None
    assert {t.function for t in document.differing} == {"toy:parallel_wrong"}
    assert result.exit_code is Exit.FINDINGS
    validate_json("bench", result.to_json())


@needs_torch
def test_our_own_forms_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of a family run, and an interrupt keeps the forms that were timed."""
    result = flacheck.bench("hgrn", length=2, **SMALL)
    assert [t.form for t in result.timings] == ["chunk", "fused_recurrent"]
    assert result.exit_code is Exit.OK
    form_timing = result.timings[0]

    def stop_after_one(self: FormBench, *arguments: object) -> Iterator[FormTiming]:
        yield form_timing
        raise KeyboardInterrupt

    monkeypatch.setattr(FormBench, "measure", stop_after_one)
    partial = flacheck.bench("hgrn", length=2, **SMALL)
    assert partial.timings == [form_timing]
    assert partial.exit_code is Exit.INTERRUPTED
    assert document_of([]).exit_code is Exit.INCOMPLETE


def test_without_a_gpu_bench_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU the error is IncompleteError."""
    monkeypatch.setattr("flacheck.engine.card.torch_folder", lambda: None)
    with pytest.raises(IncompleteError, match="flacheck bench needs a GPU"):
        flacheck.bench("gla")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "name an OPERATOR"),
        ({"operator": "glaa"}, "did you mean gla"),
        ({"package": "torch"}, "--package needs --op"),
        ({"operator": "gla", "op": "x"}, "name it with --package"),
        ({"operator": "gla", "length": "0"}, "--length takes numbers of at least 1"),
        ({"operator": "gla", "length": "ten"}, "--length takes whole numbers"),
        ({"operator": "gla", "dtype": "int8"}, "--dtype takes one of"),
        ({"package": "no-such-package", "op": "x"}, "is not installed beside flacheck"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    """Wrong arguments are refused before a GPU is looked for."""
    with pytest.raises(UsageError, match=message):
        flacheck.bench(**arguments)


def test_a_form_that_does_not_exist_is_an_empty_selection() -> None:
    """An unknown form's error lists the forms."""
    from flacheck.api.bench import matching

    forms = measuring.forms_of_corpus("gla")
    assert [form.form for form in matching(forms, ("chunk",))] == ["chunk"]
    with pytest.raises(EmptySelection, match="there are chunk, fused_recurrent"):
        matching(forms, ("parallel",))
