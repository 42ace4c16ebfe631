"""The owner of a failure, and where to report it."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.capabilities.repro.output.blame import blame
from tests.made_records import record
from tests.made_specimens import FAILS, chain

CELL = chain().cell(FAILS)
UPSTREAM = "https://github.com/triton-lang/triton/issues/new?template="


@pytest.mark.parametrize(
    ("fields", "what", "upstream"),
    [
        ({"stage": "llir", "message": "IndexError: map::at"}, "compiler bug", "bug.yml"),
        ({"stage": "cubin", "message": "error : Feature '.bf16'"}, "compiler bug", "bug.yml"),
        ({"stage": "load", "code": "FC501"}, "limit of the GPU", ""),
        ({"stage": "ast", "message": "ValueError: fp8 not supported"}, "error of the kernel", ""),
        ({"stage": "ast", "message": "KeyError: 'x'"}, "compiler bug", "bug.yml"),
        (
            {"stage": "ast", "message": "AttributeError: module 'a' has no attribute 'tanh'"},
            "error of the kernel",
            "",
        ),
        ({"stage": "import", "code": "FC603"}, "error of the kernel", ""),
        ({"stage": "autotune", "code": "FC601"}, "compiler bug (autotuner)", "bug.yml"),
        ({"stage": "cubin", "code": "FC921"}, "compiler bug (slow compile)", "performance.yml"),
    ],
)
def test_the_stage_and_the_words_tell_whose_failure_it_is(
    fields: dict[str, Any], what: str, upstream: str
) -> None:
    """A compiler bug belongs to Triton's tracker, the rest to the kernel's."""
    owner = blame(CELL, record("fails", **fields), "")
    assert owner.what == what
    if upstream:
        assert owner.where == UPSTREAM + upstream
    else:
        assert owner.where == "where kernel is maintained"


def test_the_kernels_own_assembly_is_the_kernels_own_error() -> None:
    """An error in inline assembly is the kernel's error."""
    invalid_assembly = record(
        "fails", stage="cubin", message="error : Feature 'ex2.bf16' requires sm_90"
    )
    assert (
        blame(CELL, invalid_assembly, "tl.inline_asm_elementwise('ex2…')").what
        == "error of the kernel"
    )
