"""The inline assembly that the source of a launches file may hold."""

from __future__ import annotations

import pytest

from flacheck.subjects.inputs.launches.assembly import problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tanh.approx.f32 $0, $1;",
        "{ .reg .pred p; setp.lt.f32 p, $1, 0f00000000; selp.f32 $0, $2, $3, p; }",
        "mov.b32 {$0, ${1}}, $2; // a comment\n",
        "mul.f32 $0, $1, .5;",
        "prmt.b32 $0, ${1:c}, $2, 0x5410;",
        "bar.sync $$1;",
    ],
)
def test_what_instructions_need_is_let_through(text: str) -> None:
    """Types, state spaces, declarations of registers and numbered operands are accepted."""
    assert problem(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".include 5", "the directive .include"),
        ("add.u32 $0, $1, 1; .incbin 5", "the directive .incbin"),
        (".macro m", "the directive .macro"),
        ("s_nop 0\n.  ", "the directive ."),
        ('.file "x"', "the character '\"'"),
        ("a \\n b", "the character '\\\\'"),
        ("# 1", "the character '#'"),
        ("mov.u32 $0, é;", "the character 'é'"),
        ("${:uid}", "the sign '${'"),
        ("$(a$|b$)", "the sign '$('"),
    ],
)
def test_everything_else_is_named(text: str, message: str) -> None:
    """An assembler's directives can read files; quotes and escapes can name them."""
    assert problem(text) == message
