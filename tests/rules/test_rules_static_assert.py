"""Static assertions: the kernel's own text and its signature."""

from __future__ import annotations

from flacheck.rules import decisive, read, signature

LOG = """\
Traceback (most recent call last):
  File "k.py", line 3, in run
triton.compiler.errors.CompileTimeAssertionFailure: at 2:4:
def k(x, B: tl.constexpr):
    tl.static_assert(B > 100, 'block too small')
    ^
"""


def _signature(log: str) -> str:
    return signature(read(log)[0], "ast")


def test_the_text_of_an_assertion_is_kept() -> None:
    """The text is in the signature, the position is not."""
    log = LOG + "block too small\n"
    assert decisive(log) == "CompileTimeAssertionFailure: block too small"
    other = log.replace("at 2:4:", "at 7:8:")
    assert _signature(log) == _signature(other) != _signature(LOG + "head dim must be 64\n")


def test_an_assertion_without_a_text_is_its_line() -> None:
    """An assertion without a text is its source line."""
    log = LOG.replace(", 'block too small'", "")
    assert decisive(log) == "CompileTimeAssertionFailure: tl.static_assert(B > 100)"
    assert decisive(log + "\nThe above exception was the direct cause of this\n") == decisive(log)


def test_other_errors_of_the_front_end_keep_theirs() -> None:
    """Other front-end errors keep their messages."""
    log = LOG.replace("CompileTimeAssertionFailure", "UnsupportedLanguageConstruct")
    assert (
        decisive(log + "nested functions are unsupported\n") == "nested functions are unsupported"
    )
    log = LOG.replace("CompileTimeAssertionFailure", "CompilationError")
    assert decisive(log + "ValueError('no')\n") == "ValueError('no')"
