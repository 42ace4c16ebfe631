"""Releases of Triton for tests."""

from __future__ import annotations

import pytest

from flacheck import toolchains
from flacheck.errors import Exit, ToolchainError


def identities(*specs: str) -> list[str]:
    return [choice.identity for choice in toolchains.resolve(specs).choices]


def failure(spec: str = "3.4.0") -> str:
    """The message when providing a release fails."""
    with pytest.raises(ToolchainError) as caught:
        toolchains.provide(toolchains.resolve([spec]).choices[0])
    assert caught.value.exit_code == Exit.INCOMPLETE
    assert "\n" not in str(caught.value)
    return str(caught.value)
