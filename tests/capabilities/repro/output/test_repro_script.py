"""The standalone script: its check, its imports and its launch."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.repro.output.script import render, render_short
from flacheck.capabilities.repro.output.symptom import Symptom, readable_words, words
from flacheck.capabilities.repro.passes.autotuner import add_autotuner
from flacheck.model import Finding
from flacheck.rules import RULES, read, signature
from tests.made_records import record
from tests.made_specimens import POINTER, chain, specimen
from tests.rule_logs import log_of, logs


@pytest.mark.parametrize(
    ("text", "signal", "check"),
    [
        (
            "ptxas /tmp/a.ptx, line 63; error   : Feature '.bf16' requires .target sm_80 or higher",
            None,
            "Feature '.bf16' requires .target sm_80 or higher",
        ),
        ("python: /project/x.cpp:5: int f(): Assertion `a == b' failed.", "SIGABRT", "a == b"),
        ("SIGSEGV in stage llir, nothing on stderr", "SIGSEGV", "SIGSEGV"),
        (
            "out of resource: shared memory, Required: 245760, Hardware limit: 232448.",
            None,
            "out of resource: shared memory",
        ),
        # A message that was cut ends in a character that no compiler printed.
        ("error: operand of " + "x" * 40 + "…", None, "error: operand of " + "x" * 40),
        # flacheck's own description of an end without an error is not printed by a compiler.
        (
            "exit status 3 in stage llir, the last lines were:\nreading\nbad layout in dot",
            None,
            "bad layout in dot",
        ),
        ("raised in stage ast, the last lines were:\nOddity: no dot", None, "Oddity: no dot"),
        (
            "exit status 3 in stage llir, nothing on stderr",
            None,
            "exit status 3",
        ),
    ],
)
def test_a_script_looks_for_words_that_every_machine_prints(
    text: str, signal: str | None, check: str
) -> None:
    """The check contains no path, line or quantity."""
    assert words(record("fails", message=text, signal=signal)) == check


# Failures of a machine are not reduced.
REDUCIBLE = [name for name in logs("golden") if RULES[name.partition("/")[0]].shows != "machine"]


@pytest.mark.parametrize("name", REDUCIBLE)
def test_the_words_of_a_failure_stand_in_one_line_of_its_log(name: str) -> None:
    """The check is a part of one line of the log."""
    findings = read(log_of(name))
    failing = record("fails", code=findings[0].code, message=findings[0].message)
    assert any(words(failing) in line for line in log_of(name).splitlines())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            """AttributeError("module 'triton.language' has no attribute 'tanh'")""",
            "AttributeError: module 'triton.language' has no attribute 'tanh'",
        ),
        (
            r"""ValueError('fp8e4nv isn\'t supported, use "fp8e5"')""",
            """ValueError: fp8e4nv isn't supported, use "fp8e5\"""",
        ),
        (
            "triton.compiler.errors.CompilationError: acc is not defined",
            "CompilationError: acc is not defined",
        ),
        ("CompilationError: NameError('acc is not defined')", "NameError: acc is not defined"),
        ("CompilationError: NameError: acc is not defined", "NameError: acc is not defined"),
        ("KeyError('accumulator')", "KeyError: 'accumulator'"),
        (r"ValueError('first is wrong\nsecond')", "ValueError: first is wrong"),
        ("LLVM ERROR: couldn't allocate a register", "LLVM ERROR: could not allocate a register"),
    ],
)
def test_forms_of_one_exception_have_one_signature_and_one_check(one: str, other: str) -> None:
    """A script recognizes the exception in the form of another release."""
    assert signature_of(one) == signature_of(other)
    for message, line in ((one, other), (other, one)):
        assert words(record("fails", message=message)) in line


def signature_of(message: str) -> str:
    """The signature of a failure with this message."""
    return signature(Finding("FC100", "", message), "ast")


@pytest.mark.parametrize("condition", ["B > 100", "B > 100, 'block too small'"])
def test_the_words_of_a_static_assertion_stand_in_one_line_of_its_log(condition: str) -> None:
    """The check of a static assertion is a part of its source line."""
    line = f"    tl.static_assert({condition})"
    log = f"triton.compiler.errors.CompileTimeAssertionFailure: at 2:4:\n{line}\n    ^\n"
    failing = record("fails", code="FC100", message=read(log)[0].message)
    assert words(failing) in line


@pytest.mark.parametrize("statement", ["assert B > 100", "assert kind in (1, 2)"])
def test_a_script_shows_an_assertion_without_a_message(tmp_path: Path, statement: str) -> None:
    """The script exits with 0 under a compiler that raises the assertion."""
    (tmp_path / "triton/backends").mkdir(parents=True)
    (tmp_path / "triton/language.py").touch()
    (tmp_path / "triton/backends/__init__.py").touch()
    (tmp_path / "triton/backends/compiler.py").write_text("class GPUTarget: ...\n")
    (tmp_path / "triton/__init__.py").write_text(f"B, kind = 1, 3\n{statement}\n")
    message = f"AssertionError: {statement}"
    script = tmp_path / "repro.py"
    symptom = Symptom(words(record("fails", message=message)), "title")
    script.write_text(render(chain(), symptom))
    outcome = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (outcome.returncode, "the failure shows" in outcome.stdout) == (0, True), outcome.stdout


@pytest.mark.parametrize(("status", "exit_status"), [(3, 0), (4, 1)])
def test_a_script_compares_the_exit_status_of_a_silent_end(
    tmp_path: Path, status: int, exit_status: int
) -> None:
    """For a silent failure the script compares the exit status."""
    (tmp_path / "triton.py").write_text(f"import os\nos._exit({status})\n")
    script = tmp_path / "repro.py"
    text = "exit status 3 in stage llir, nothing on stderr"
    script.write_text(render(chain(), Symptom(words(record("fails", message=text)), "title")))
    outcome = subprocess.run([sys.executable, str(script)], capture_output=True)
    assert outcome.returncode == exit_status


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        (
            "ptxas /tmp/a.ptx, line 63; error   : Feature '.bf16' requires .target sm_80 or higher",
            "Feature '.bf16' requires .target sm_80 or higher",
        ),
        (
            "python: /project/x.cpp:5: int f(): Assertion `a == b' failed.",
            "Assertion `a == b' failed",
        ),
        (
            """AttributeError("module 'triton.language' has no attribute 'tanh'")""",
            """AttributeError("module 'triton.language' has no attribute 'tanh'")""",
        ),
        (
            "AssertionError(\"acc has initial type <['64', '64'], fp32> but is re-assigned to "
            "<['64', '64'], fp64> in loop! Please make sure that the type stays consistent.\")",
            "AssertionError(\"acc has initial type <['64', '64'], fp32> but is re-assigned to "
            "<['64', '64'], fp64> in loop! Please make sure that the type stays consistent",
        ),
        (
            "<scratch>/inline_69.py:10:32: error: 'llvm.and' op requires the same type",
            "error: 'llvm.and' op requires the same type",
        ),
        (
            "error: size mismatch when packing elements: expected 64 but got 128, at /tmp/x.py:3",
            "error: size mismatch when packing elements: expected 64 but got 128",
        ),
    ],
)
def test_a_title_quotes_whole(text: str, quote: str) -> None:
    """A title has no open quote or bracket and keeps the word "Assertion"."""
    assert readable_words(record("fails", message=text)) == quote


def test_scripts_are_python_that_imports_only_triton() -> None:
    """Every form of script imports only the standard library and Triton."""
    plain = specimen("tl.store(x, 1)", x={"dtype": "fp16", "align": 1})
    tuner = add_autotuner(
        specimen("pass", x=POINTER, K={"constexpr": 32}),
        [{"kwargs": {}, "num_warps": 2}] * 2,
        ["K"],
    )
    for one in (plain, chain(), tuner):
        for words_ in ("a 'quoted' \"thing\"", "SIGSEGV"):
            tree = ast.parse(render(one, Symptom(words_, "triton 3.2.0 fails")))
            imports = {
                a.name.split(".")[0]
                for n in ast.walk(tree)
                if isinstance(n, ast.Import)
                for a in n.names
            }
            assert imports <= {"os", "signal", "subprocess", "sys", "triton", "types"}


@pytest.mark.parametrize(
    ("spec", "expression"),
    [
        (None, "None"),
        ({"dtype": "fp16", "align": 16}, 'Pointer("float16")'),
        ({"dtype": "fp16", "align": 4}, 'Pointer("float16", 4)'),
        ({"int": 8}, "8"),
        ({"float": 0.5}, "0.5"),
        ({"constexpr": 64}, "64"),
        ({"constexpr": float("inf")}, 'float("inf")'),
        ({"constexpr": {"dtype": "fp32"}}, "tl.float32"),
        ({"constexpr": {"tuple": [1, 2]}}, "(1, 2,)"),
        ({"tuple": [{"int": 1}, None]}, "(1, None,)"),
    ],
)
def test_an_argument_of_a_launch_is_python(spec: Any, expression: str) -> None:
    """Each form of argument becomes a Python expression."""
    text = render(specimen("pass", a=spec), Symptom("words", "title"))
    assert f"    a={expression},\n" in text


def test_a_check_is_made_of_the_finished_compile() -> None:
    """The check's preparation stands before the compile, its print after it."""
    check = 'if compiled.metadata.shared > 9:\n    print("too much")\n'
    text = render(chain(), Symptom("too much", "title", check, 7, "import time\n\n"))
    launch = text.index("compiled = kernel.run(")
    assert text.index("import time\n") < launch < text.index(check.rstrip())
    assert "timeout=7\n" in text


def test_a_refused_import_needs_no_call() -> None:
    """A script for a failing decorator has no launch."""
    tuner = add_autotuner(specimen("pass", K={"constexpr": 32}), [{"kwargs": {}}] * 2, ["gone"])
    text = render(tuner.with_(stage="import"), Symptom("words", "title"))
    assert "kernel.run(" not in text
    assert text.endswith('print("the kernel was decorated")\n')


def test_a_descriptor_of_the_host_is_made_by_the_script() -> None:
    """The script builds a host tensor descriptor, also for AMD targets."""
    descriptor = {
        "dtype": "bf16",
        "align": 16,
        "shape": [64, 64],
        "strides": [64, 1],
        "block": [16, 16],
    }
    one = specimen("pass", d={"descriptor": {**descriptor, "padding": "nan"}})
    text = render(one, Symptom("words", "title"))
    assert 'd=TensorDescriptor(Pointer(DType("bfloat16")), [64, 64], [64, 1], [16, 16],' in text
    assert "padding='nan')" in text
    assert "from triton.tools.tensor_descriptor import TensorDescriptor" in text
    classes = text[text.index("class DType") : text.index("class Driver")]
    namespace: dict[str, Any] = {}
    exec(classes, namespace)
    names = ("bfloat16", "float8e4nv", "int64", "int1")
    assert [namespace["DType"](name).itemsize for name in names] == [2, 1, 8, 1]
    assert "types.ModuleType" in render(replace(one, target="gfx942"), Symptom("words", "title"))


def test_a_short_script_compiles_by_types_and_constants() -> None:
    """The short script compiles types; arguments without a type have no short script."""
    symptom = Symptom("boom", "title")
    start = specimen("tl.store(x + n, N)", x=POINTER, n={"int": 8}, N={"constexpr": 2})
    short = render_short(start.with_(options={"num_warps": 8}), symptom)
    assert short is not None
    types = '{"x": "*fp16", "n": "i32", "N": "constexpr"}, {"N": 2}'
    assert short.splitlines()[-2:] == [
        f"source = ASTSource(kernel, {types})",
        'triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})',
    ]
    compile(short, "short.py", "exec")
    assert render_short(specimen("tl.store(x, 1)", x=None), symptom) is None
    assert render_short(start, Symptom("boom", "title", check="1\n" * 9)) is None
