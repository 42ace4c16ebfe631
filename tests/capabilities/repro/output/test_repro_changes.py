"""Changes of the launch by a reduction, with their reasons."""

from __future__ import annotations

from flacheck.capabilities.repro.output.changes import changes
from tests.capabilities.repro.kernel.test_repro_kernel_operations import dot
from tests.made_specimens import chain, specimen


def test_what_stays_the_same_is_not_mentioned() -> None:
    """A reduction of the body alone has no list."""
    assert list(changes(chain(), chain())) == []


def test_every_change_has_its_reason() -> None:
    """Options, dtypes and dots that changed each have a reason."""
    fewer = chain().with_(options={"num_warps": 4})
    assert list(changes(chain(), fewer)) == [
        "num_warps: 8 → 4, under which the same failure shows",
        "num_stages: 3 → the compiler's default, under which the same failure shows",
    ]
    [dtypes, precision] = changes(dot("fp32"), dot("bf16"))
    assert dtypes.startswith("dtypes in memory: fp32 → bf16, fp32; ")
    assert "(tl.dot(bf16))" in dtypes
    assert precision == "dots of precision tf32 are gone: the failure is in another operation"


def test_a_default_that_was_written_down_is_no_change() -> None:
    """An explicit default is not a change."""
    before = chain().with_(options={"num_warps": 4})
    assert list(changes(before, chain().with_(options={}))) == []


def test_dtypes_of_bare_accesses_need_no_operation() -> None:
    """Without an operation, the reason is the same failure."""
    before = specimen("tl.load(x)", x={"dtype": "fp16"})
    after = specimen("tl.load(x)", x={"dtype": "fp32"})
    [change] = changes(before, after)
    assert change == "dtypes in memory: fp16 → fp32, under which the same failure shows"
