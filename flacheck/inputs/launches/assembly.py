"""Which inline assembly a source from a file may hold: a whitelist of the words behind a dot.

An assembler reads the text. LLVM's, which AMD's targets use, knows directives that read files
(`.include`, `.incbin`) and others that write such a word out of pieces (`.macro`, `.irp`), so only
what instructions and their registers need is let through.
"""

import re

# Words that may stand behind a dot where none belongs to the name of an instruction or register:
# types and state spaces of PTX, and declarations of its registers.
_WORDS = frozenset(
    """
    reg pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 bf16 bf16x2 tf32
    e4m3x2 e5m2x2 v2 v4 v8 local shared global const param align to from
    """.split()
)
# A dot with nothing in front that it could belong to. `1.0` and `mul.f32` are no directives; `.5`
# is a number.
_DOTTED = re.compile(r"(?<![A-Za-z0-9_])\.(?![0-9])(?P<word>\w*)")
# Of LLVM's own signs the numbers of operands (`$0`, `${1}`, `${1:c}`) and the doubled sign: others
# choose between texts and could hide a directive.
_SIGN = re.compile(r"\$(?!\d|\{\d+(?::[a-zA-Z])?\})")
# A file would be named in quotes, an escape could stand for anything.
_ODD = re.compile(r"[\"'`\\#]|[^\n\t\x20-\x7e]")


def problem(text: str) -> str | None:
    """What no kernel's assembly needs, or None."""
    odd = _ODD.search(text)
    if odd:
        return f"the character {odd[0]!r}"
    # A doubled sign is one sign of the assembly's own: what follows it is no operand's number.
    sign = _SIGN.search(text.replace("$$", ""))
    if sign:
        return f"the sign {text.replace('$$', '')[sign.start() : sign.start() + 2]!r}"
    for match in _DOTTED.finditer(text):
        if match["word"] not in _WORDS:
            return f"the directive .{match['word']}"
    return None
