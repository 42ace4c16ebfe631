"""Matrices: their values, and the errors of malformed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.errors import MatrixError, UsageError
from flacheck.subjects.inputs import matrix
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests.planned import plan

GOOD = """\
version: 1
packages: [flash-linear-attention==0.2.2]
launches:
  fla.ops.x:kernel:
    - args: {q: {dtype: "{dtype}", align: 16}, T: {int: "{T}"}, g: null}
axes:
  dtype: [bf16, fp16]
  target: sm90
include:
  - {dtype: fp32, num_warps: [4, 8]}
exclude:
  - {dtype: fp16, target: sm90}
"""


def read(tmp_path: Path, text: str) -> matrix.Matrix:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    return matrix.read(file)


def test_axes_take_a_value_or_a_list(tmp_path: Path) -> None:
    """A scalar is a list of one; an include entry keeps what it does not name."""
    matrix = read(tmp_path, GOOD)
    assert matrix.blocks[0].axes == {"dtype": ("bf16", "fp16"), "target": ("sm90",)}
    assert matrix.blocks[1].axes == {"dtype": ("fp32",), "target": ("sm90",), "num_warps": (4, 8)}
    assert matrix.exclude == ({"dtype": ("fp16",), "target": ("sm90",)},)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("version: 1", "version: 2", 1, "version: 1"),
        ("axes:", "axis:", 6, "allowed are"),
        ("dtype: [bf16, fp16]", "dtype: [bf16, fp17]", 7, "'fp17' is unknown"),
        ("target: sm90", "target: sm91", 8, "sm91"),
        ("num_warps: [4, 8]", "num_warps: [4, zero]", 10, "is not a positive integer"),
        ("T: {int:", "T: {integer:", 5, "dtype, int, float"),
        (
            "exclude:\n  - {dtype: fp16, ",
            "exclude:\n  - {dtypes: fp16, ",
            12,
            "unknown key 'dtypes'",
        ),
        ("packages: [", "packages: [1, ", 2, "must be a string"),
        ("  dtype: [bf16, fp16]", "  dtype: [bf16, fp16", 8, "not valid YAML"),
    ],
)
def test_an_error_names_file_line_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    """Every message has file and line, whatever is wrong."""
    assert old in GOOD
    with pytest.raises(MatrixError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(f"{tmp_path}/m.yaml:{line}: ")
    assert message in str(caught.value)


BOMB = "version: 1\na: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi")
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (f"  num_warps: {'9' * 5_000}", "digits"),
        ("  num_warps: !!int abc", "not valid YAML"),
        ("  options: [{maxnreg: 2026-13-45}]", "not valid YAML"),
        ("  options: [{maxnreg: 2026-01-01}]", "a value of the type date; quote it"),
        ("  options: [{maxnreg: !!binary aGk=}]", "a value of the type bytes"),
        ("  options: [{maxnreg: !!python/object:os.system x}]", "not valid YAML"),
        ("  options: &o [*o]", "levels deep"),
        ("  options: " + "[" * 200 + "]" * 200, "levels deep"),
        ("  options: " + "[" * 50_000, "nested too deeply"),
        ('  kernel: "\\ud800"', "lone surrogate"),
        ("  options: [{? [a] : b}]", "a key must be a plain word"),
        ("  shape: [{T: 1" + "0" * 100 + "}]", "too large"),
        ("  stage: [[compile]]", "is unknown"),
        ("  dtype: [{bf16: 1}]", "is unknown"),
        ("  configs: [[own]]", "is unknown"),
        ("  toolchain: [./cuda]", "is not a release"),
        ("  triton: theirs.whl", "is not a release"),
    ],
)
def test_hostile_values_are_named_with_their_line(
    tmp_path: Path, change: str, message: str
) -> None:
    """A failure of the YAML parser is an error of the matrix with its line."""
    with pytest.raises(MatrixError, match=r"m\.yaml") as caught:
        read(tmp_path, f"version: 1\naxes:\n{change}\n")
    assert message in str(caught.value)


def test_aliases_are_counted_with_what_they_stand_for(tmp_path: Path) -> None:
    """Nine lines that stand for a thousand million values are refused at once."""
    with pytest.raises(MatrixError, match="200,000 values"):
        read(tmp_path, BOMB)


def test_a_product_of_configs_beyond_the_limit_is_said_before_it_is_made(tmp_path: Path) -> None:
    """The error has the number of configurations."""
    values = f"[{', '.join(map(str, range(1, 41)))}]"
    names = ", ".join(f"B{number}: {values}" for number in range(8))
    launch = f"launches: {{a:k: [{{args: {{}}, configs: {{{names}}}}}]}}"
    with pytest.raises(MatrixError, match=r"m\.yaml:2: a product of 6,553,600,000,000 configs"):
        read(tmp_path, f"version: 1\n{launch}\naxes: {{target: sm90}}\n")


def test_a_matrix_of_too_many_cells_says_how_many(tmp_path: Path) -> None:
    """The number is computed before a cell is made."""
    many = f"[{', '.join(map(str, range(1, 2001)))}]"
    file = tmp_path / "m.yaml"
    file.write_text(f"version: 1\naxes: {{num_warps: {many}, num_stages: {many}}}\n")
    selection = Selection(toolchains=("installed",))
    with pytest.raises(UsageError, match=r"has up to [\d,]{10,} cells, and 1,000,000 are the most"):
        plan(Subject(str(file)), selection)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "version: 1\n", "just words\n"])
def test_a_file_that_asks_nothing_is_an_error(tmp_path: Path, text: str) -> None:
    """An empty file, a list, a matrix without axes."""
    with pytest.raises(MatrixError):
        read(tmp_path, text)


def test_an_unknown_name_lists_the_known() -> None:
    """The message for a mistyped matrix lists the existing ones."""
    with pytest.raises(UsageError, match="quick"):
        matrix.find("quik")


def test_a_folder_or_a_missing_file_is_one_message(tmp_path: Path) -> None:
    """A path that cannot be read gives no traceback."""
    with pytest.raises(UsageError, match="cannot be read"):
        matrix.read(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        matrix.find(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize("name", matrix.names())
def test_the_shipped_matrices_can_be_read(name: str) -> None:
    """Each has at least one block."""
    assert matrix.find(name).blocks
