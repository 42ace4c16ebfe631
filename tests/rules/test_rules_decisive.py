"""The decisive lines of a compiler's output."""

from __future__ import annotations

from flacheck.model import MESSAGE_LIMIT
from flacheck.rules import read
from flacheck.rules.decisive import clean, decisive, join
from tests.rule_logs import log_of


def test_the_cause_stands_before_its_wrapper() -> None:
    """The wrapper of a cause is left out."""
    lines = decisive(log_of("FC301/golden-f16-3.3.0.log")).splitlines()
    assert lines[0] == "Unsupported conversion from f16 to f16"
    assert not any("PassManager" in line for line in lines)


def test_a_wrapper_alone_is_better_than_nothing() -> None:
    """A wrapper is decisive if it is alone."""
    assert read("Traceback (most recent call last):\nRuntimeError: PassManager::run failed\n")[
        0
    ].message == ("RuntimeError: PassManager::run failed")


def test_a_message_is_cut_at_the_limit() -> None:
    """The message has whole lines up to the limit."""
    log = "".join(
        f"LLVM ERROR: complaint {chr(97 + i // 26)}{chr(97 + i % 26)}\n" for i in range(300)
    )
    assert len(decisive(log)) <= MESSAGE_LIMIT
    assert set(decisive(log).splitlines()) <= set(log.splitlines())
    assert len(decisive("LLVM ERROR: " + "x" * 5_000)) == MESSAGE_LIMIT


def test_a_cleaned_log_keeps_its_lines() -> None:
    """Dumped IR becomes empty lines, so that line numbers hold."""
    dump = "[rank3]: error: one\n  %0 = tt.load %x\n2024-05-01T10:00:00.1Z stderr F two\r\n"
    assert clean(dump) == "error: one\n\ntwo\n"


def test_a_line_without_end_is_cut() -> None:
    """A line of megabytes is truncated."""
    assert clean("x" * 5_000 + "\nshort") == "x" * (2 * MESSAGE_LIMIT) + "…\nshort"


def test_the_message_of_a_compilation_error_stands_behind_its_caret() -> None:
    """The message is the text after the caret."""
    log = (
        "triton.compiler.errors.CompilationError: at 3:4:\n"
        "def k(x):\n    tl.dot(x, x)\n    ^\nshapes differ\n"
    )
    assert decisive(log) == "shapes differ"


def test_a_bare_assertion_is_named_by_its_source() -> None:
    """A bare assertion has its source line."""
    log = '  File "a.py", line 2, in f\n    assert K <= 128\n    ^^^^^^\nAssertionError\n'
    assert decisive(log) == "AssertionError: assert K <= 128"


def test_lines_are_joined_up_to_the_limit() -> None:
    """Lines are joined whole up to the limit."""
    half = "y" * (MESSAGE_LIMIT // 2)
    assert join([half, half]) == half
    assert join(["a", "b"]) == "a\nb"


def test_names_of_hosts_are_no_types_of_exceptions() -> None:
    """A host's prefix is not an exception's type."""
    log = (
        "node-1: [2024-05-01 10:00:00,123] [INFO] started\n"
        "10.0.0.7: Traceback (most recent call last):\n"
        '10.0.0.7:   File "train.py", line 2, in <module>\n'
        "10.0.0.7: RuntimeError: PassManager::run failed\n"
        "node-1: ValueError: later\n"
    )
    assert clean(log).splitlines()[3:] == [
        "RuntimeError: PassManager::run failed",
        "ValueError: later",
    ]
    assert clean("RuntimeError: one\nnode: two\n") == "RuntimeError: one\nnode: two\n"


def test_an_import_that_a_program_goes_on_without_is_no_failure() -> None:
    """An optional import that fails is not a failure."""
    trace = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\n'
        "    import triton\n"
        "ModuleNotFoundError: No module named 'triton'\n"
    )
    warning = "WARNING: some optimizations will not be enabled\n"
    assert read(warning + trace) == []
    assert [finding.code for finding in read("starting\n" + trace)] == ["FC910"]
    assert len(clean(warning + trace + "end\n").splitlines()) == 6


def test_a_message_that_a_program_calls_harmless_is_no_failure() -> None:
    """A quoted message is not a failure."""
    message = "error: operation scheduled before its operands"
    assert read(f"The following error message '{message}' can be ignored.\n") == []
    assert [finding.code for finding in read(message)] == ["FC205"]
