"""Inline assembly in a source from a file: its text is read here, and names no file."""

from __future__ import annotations

import pytest

from tests.subjects.inputs.launches.test_admission import BODY, HEAD, refusal

ASM = "tl.inline_asm_elementwise({}, '=r,r', [x], dtype=tl.float32, is_pure=True, pack=1)"
KEYWORDS = "tl.inline_asm_elementwise(constraints='=r,r', args=[x], asm={}, pack=1)"
PTX = (
    "{ .reg .pred p; setp.gt.f32 p, ${1}, 20.; @p mov.f32 $0, $1; @!p ex2.approx.ftz.f32 $0, .5; }"
)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + BODY.format("y = " + ASM.format(repr(PTX))),
        HEAD + BODY.format("y = " + KEYWORDS.format("'mov.b32 $0, %tid.x; // dummy $1'")),
        HEAD
        + "SAID: tl.constexpr = tl.constexpr('s_nop 0; v_mov_b32 $0, $1')\n"
        + BODY.format("y = " + ASM.format("SAID")),
        HEAD + BODY.format("text: tl.constexpr = 'mov.f32 $0, $1;'\n    y = " + ASM.format("text")),
        HEAD + BODY.format("y = " + ASM.format("'mov.f32 $0, $1;' if B == 1 else 's_nop 0'")),
    ],
)
def test_the_assembly_that_kernels_hold_is_admitted(text: str) -> None:
    """Registers, predicates, types, operands; written out, or a constant that is."""
    assert refusal(text) is None


@pytest.mark.parametrize(
    "asm",
    [
        '.include "/etc/passwd"',
        "s_nop 0\n.include /etc/passwd",
        "s_nop 0;.incbin /etc/passwd",
        "a: .incbin /etc/passwd",
        "/* */.include x",
        ".INCLUDE x",
        ".macro m a\n.\\a x\n.endm\nm include",
        ".irp a,include\n.\\a x\n.endr",
        ".altmacro",
        ".set x, 1",
        ".inc$(lude x$)",
        "$(.$)include x",
        "${:comment}",
        "$$.include x",
        ".file x",
        ".section x",
        ". include x",
        ".inc\u200blude x",
    ],
)
@pytest.mark.parametrize("where", ["literal", "constant", "local", "keyword"])
def test_assembly_that_could_name_a_file_is_refused(asm: str, where: str) -> None:
    """An assembler would read the file and print its text into a record."""
    call = {
        "literal": ASM.format(repr(asm)),
        "constant": ASM.format("SAID"),
        "local": ASM.format("text"),
        "keyword": KEYWORDS.format(repr(asm)),
    }[where]
    text = HEAD + f"SAID = {asm!r}\n" + BODY.format(f"text = {asm!r}\n    y = {call}")
    assert "in inline assembly" in str(refusal(text))


@pytest.mark.parametrize(
    "body",
    [
        "y = " + ASM.format("'.inc' + 'lude x'"),
        "y = " + ASM.format("f'{B}'"),
        "y = " + ASM.format("B"),
        "y = " + ASM.format("*B"),
        "y = tl.inline_asm_elementwise(**B)",
        "y = tl.inline_asm_elementwise()",
        "for text in B:\n        y = " + ASM.format("text"),
        "text = 'nop'\n    text = B\n    y = " + ASM.format("text"),
        "text = 'nop'\n    text += '.include x'\n    y = " + ASM.format("text"),
        "text, other = 'nop', '.include x'\n    y = " + ASM.format("text"),
        "f = tl.inline_asm_elementwise",
        "y = k(tl.inline_asm_elementwise)",
        "y = tl.inline_asm_elementwise.dtype",
    ],
)
def test_assembly_whose_text_is_not_in_the_source_is_refused(body: str) -> None:
    """A launch's constants could be any text, and pieces could become any."""
    assert "assembl" in str(refusal(HEAD + BODY.format(body))) or "asm" in str(
        refusal(HEAD + BODY.format(body))
    )


@pytest.mark.parametrize(
    "line", ["f = tl.inline_asm_elementwise", "from triton.language import inline_asm_elementwise"]
)
def test_the_assembler_has_no_name_in_a_module(line: str) -> None:
    """A launch may hand a kernel whatever function its module names."""
    assert "inline_asm_elementwise" in str(refusal(f"{HEAD}{line}\n"))


@pytest.mark.parametrize(
    "assignment",
    [
        "tl.load = x",
        "x.dtype = 1",
        "x.dtype += 1",
        "x.dtype: int = 1",
        "(y, x.dtype) = (1, 2)",
        "for x.dtype in range(1):\n        pass",
        "with tl.async_task([0]) as x.dtype:\n        pass",
        "y = [0 for x.dtype in range(1)]",
        "x[0] = 1",
        "B[0], B[1] = 1, 2",
    ],
)
def test_nothing_that_is_there_is_changed(assignment: str) -> None:
    """A changed attribute of the language would affect every later kernel."""
    assert "an assignment to " in str(refusal(HEAD + BODY.format(assignment)))
