"""A check of inline assembly in a source from a file: a whitelist of the words after a dot.

An assembler reads the text. LLVM's assembler, which AMD's targets use, has directives that read
files (`.include`, `.incbin`) and others that compose such a word (`.macro`, `.irp`), so only the
words of instructions and their registers are accepted.
"""

import re

# Words after a dot that does not belong to the name of an instruction or register: types and state
# spaces of PTX, and declarations of its registers.
_WORDS = frozenset(
    """
    reg pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 bf16 bf16x2 tf32
    e4m3x2 e5m2x2 v2 v4 v8 local shared global const param align to from
    """.split()
)
# A dot at the beginning of a word. `1.0` and `mul.f32` are not directives; `.5` is a number.
_DIRECTIVE = re.compile(r"(?<![A-Za-z0-9_])\.(?![0-9])(?P<word>\w*)")
# LLVM's signs other than operands (`$0`, `${1}`, `${1:c}`): these choose between texts and could
# hide a directive.
_SIGN = re.compile(r"\$(?!\d|\{\d+(?::[a-zA-Z])?\})")
# A file name needs quotes, and an escape could stand for anything.
_ODD = re.compile(r"[\"'`\\#]|[^\n\t\x20-\x7e]")


def problem(text: str) -> str | None:
    """Return the first part of a text that kernels do not need, or None."""
    odd = _ODD.search(text)
    if odd:
        return f"the character {odd[0]!r}"
    # A doubled sign stands for a plain one, so the text after it is not an operand.
    plain = text.replace("$$", "")
    sign = _SIGN.search(plain)
    if sign:
        start = sign.start()
        return f"the sign {plain[start : start + 2]!r}"
    for match in _DIRECTIVE.finditer(text):
        if match["word"] not in _WORDS:
            return f"the directive .{match['word']}"
    return None
