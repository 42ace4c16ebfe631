"""The declarations of an autotuned kernel's source, and the lines that can replace others."""

from __future__ import annotations

import ast
from pathlib import Path

from flacheck.source import autotuners
from tests.made_tuned import SOURCE


def read(folder: Path, text: str, name: str = "kernel") -> autotuners.AutotunedKernel:
    file = folder / "read.py"
    file.write_text(text)
    kernels_read = autotuners.of_file(file, name, "read.py")
    assert kernels_read is not None
    return kernels_read


def paste(text: str, line: int, end_line: int, fix: str) -> str:
    """A file with a fix in the place of the lines it is for."""
    lines = text.splitlines()
    return "\n".join([*lines[: line - 1], fix, *lines[end_line:]]) + "\n"


def test_a_list_of_keys_is_rewritten_within_its_line(tmp_path: Path) -> None:
    """The text before and after the list stays, also behind letters of several bytes."""
    text = SOURCE.replace("key=['H'", "key = [  # ×\n 'H'")
    for source in (SOURCE, text):
        kernels_read = read(tmp_path, source)
        assert kernels_read.key_list is not None
        new = paste(
            source,
            kernels_read.key_list.line,
            kernels_read.key_list.end_line,
            kernels_read.with_keys(["H", "NEW"]),
        )
        again = read(tmp_path, new)
        assert [name for name, _ in again.keys] == ["H", "NEW"]
        assert again.arguments == kernels_read.arguments
        assert "what tells launches apart: H×K" in new


def test_a_module_level_list_is_found_where_it_stands(tmp_path: Path) -> None:
    """`key=KEYS` is fixed at KEYS."""
    text = SOURCE.replace("key=['H', 'K', 'USE_G']", "key=KEYS").replace(
        "\n\n\n@", '\n\nKEYS = ["H", "K"]\n\n\n@', 1
    )
    kernels_read = read(tmp_path, text)
    assert kernels_read.key_list is not None
    assert kernels_read.key_list.line == text.splitlines().index('KEYS = ["H", "K"]') + 1
    assert kernels_read.with_keys(["H"]) == 'KEYS = ["H"]'


def test_parameters_are_moved_behind_all_others_without_default(tmp_path: Path) -> None:
    """The new signature is Python, with the same annotations and body."""
    kernels_read = read(tmp_path, SOURCE)
    new = paste(
        SOURCE,
        kernels_read.signature.line,
        kernels_read.signature.end_line,
        kernels_read.with_parameters_last(["BK"]),
    )
    function = next(node for node in ast.parse(new).body if isinstance(node, ast.FunctionDef))
    assert [a.arg for a in function.args.args][-2:] == ["BK", "eps"]
    assert ast.get_docstring(function) == "Nothing."
    assert read(tmp_path, new).constexprs == ("H", "K", "USE_G", "BK")


def test_a_source_without_a_place_is_read_too() -> None:
    """A kernel that was cut out of its file has arguments, and no lines that mean anything."""
    kernels_read = autotuners.of_text(
        "import triton\n\n@triton.jit\ndef k(x, N: tl.constexpr):\n    pass\n", "k"
    )
    assert kernels_read is not None
    assert kernels_read.file is None
    assert kernels_read.key_list is None
    assert autotuners.of_text("x = 1\n", "k") is None


def test_only_autotuned_functions_are_named(tmp_path: Path) -> None:
    """A file that is not Python gives an empty list."""
    file = tmp_path / "names.py"
    file.write_text(SOURCE + "\n\n@triton.jit\ndef plain(x):\n    pass\n")
    assert autotuners.names_in(file) == ["kernel"]
    file.write_text("autotune(\n")
    assert autotuners.names_in(file) == []
