"""Uses of a name of Triton in a package's source: which of them tell two releases apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.guest.capture_reuse.uses import (
    Signature,
    binds_alike,
    decides_alike,
    is_only_checked,
)

OLD_CONFIG = Signature(
    ("kwargs", "num_warps", "num_stages", "gone", "pre_hook"), (), (("num_stages", "2"),)
)
NEW_CONFIG = Signature(
    ("kwargs", "num_warps", "num_stages", "pre_hook"), ("more",), (("num_stages", "3"),)
)


def place(folder: Path, source: str, marker: str = "# here") -> list[tuple[str, int]]:
    """Write a module; return its line with the marker, or the last one."""
    file = folder / "module.py"
    file.write_text(source)
    lines = source.splitlines()
    for number, line in enumerate(lines, 1):
        if marker in line:
            return [(str(file), number)]
    return [(str(file), len(lines))]


@pytest.mark.parametrize(
    ("source", "is_alike"),
    [
        ("NEW = triton.__version__ >= '3.4.0'", True),
        ("NEW = triton.__version__ >= '3.6.1'", False),
        ("NEW = version.parse(triton.__version__) >= version.parse('3.4.0')", True),
        ("NEW = Version(triton.__version__) < Version('3.7')", False),
        ("NEW = Version('3.7') > Version(triton.__version__)", False),
        ("NEW = triton.__version__.startswith('3.')", True),
        ("NEW = triton.__version__.startswith('3.6')", False),
        ("NEW = tuple(map(int, triton.__version__.split('.')[:2])) >= (3, 2)", True),
        ("NEW = tuple(map(int, triton.__version__.split('.')[:2])) >= (3, 7)", False),
        ("NEW = int(triton.__version__.split('.')[0]) == 3", True),
        ("NEW = Version(triton.__version__).major >= 3", True),
        ("VERSION = Version(triton.__version__)", False),
        ("def f():\n    return triton.__version__  # here", False),
        ("NEW = triton.__version__ >= BOUND", False),
        ("NEW = re.match('3.6', triton.__version__)", False),
        ("print(f'Triton {triton.__version__}')", True),
        ("def f():\n    raise ValueError(f'Triton {triton.__version__}')  # here", True),
        ("NAME = f'triton-{triton.__version__}'", False),
    ],
)
def test_a_version_matters_by_what_is_decided_with_it(
    tmp_path: Path, source: str, is_alike: bool
) -> None:
    """3.6.0 and 3.7.1 are alike for a bound below both, and for nothing that keeps the value."""
    assert decides_alike("3.6.0", "3.7.1", place(tmp_path, source), "__version__") is is_alike


@pytest.mark.parametrize(("bound", "is_alike"), [("3.3.0", True), ("3.7.0", False)])
def test_a_variable_of_a_function_is_followed(tmp_path: Path, bound: str, is_alike: bool) -> None:
    """Its comparisons count, and its place in the text of a warning does not."""
    source = f"""
def check():
    found = package_version.parse(triton.__version__)  # here
    required = package_version.parse("{bound}")
    if found < required:
        logger.warning(f"Triton {{found}} is old")
"""
    places = place(tmp_path, source)
    assert decides_alike("3.6.0", "3.7.1", places, "__version__") is is_alike
    (tmp_path / "b").mkdir()
    again = source.replace("if found", "found = 3\n    if found")
    assert not decides_alike("3.6.0", "3.7.1", place(tmp_path / "b", again), "__version__")


def test_the_version_of_a_distribution_is_one_too(tmp_path: Path) -> None:
    """`importlib.metadata.version` is called instead of an attribute."""
    places = place(tmp_path, "NEW = Version(metadata.version('triton')) >= Version('3.7')")
    assert decides_alike("3.6.0", "3.5.1", places, "triton")
    assert not decides_alike("3.6.0", "3.7.1", places, "triton")


@pytest.mark.parametrize(
    ("source", "is_alike"),
    [
        ("c = triton.Config({}, num_warps=4, num_stages=3)", True),
        ("c = triton.Config({}, 4, 3)", True),
        ("c = triton.Config({}, num_warps=4)", False),
        ("c = triton.Config({}, 4, 3, None)", False),
        ("c = triton.Config({}, num_warps=4, num_stages=3, gone=1)", False),
        ("c = triton.Config({}, **options)", False),
        ("c = triton.Config", False),
        ("from triton import Config  # here\nc = Config({}, 4, num_stages=3)", True),
        ("from triton import Config  # here\nc = Config({}, 4)", False),
        ("from triton import Config  # here", False),
        ("def f(c: triton.Config): ...", True),
    ],
)
def test_a_call_is_alike_where_it_binds_the_same_parameters(
    tmp_path: Path, source: str, is_alike: bool
) -> None:
    """A parameter that only one release has, and another default, matter where they are used."""
    assert binds_alike(OLD_CONFIG, NEW_CONFIG, place(tmp_path, source), "Config") is is_alike


def test_a_class_that_only_checks_types_is_told_from_one_that_is_used(tmp_path: Path) -> None:
    """An import counts by what the file does with the name."""
    checked = "from triton.runtime.jit import JITFunction  # here\nX = isinstance(k, JITFunction)"
    assert is_only_checked(place(tmp_path, checked), "JITFunction")
    made = checked.replace("isinstance(k, JITFunction)", "JITFunction(k)")
    (tmp_path / "made").mkdir()
    assert not is_only_checked(place(tmp_path / "made", made), "JITFunction")
    assert not is_only_checked([(str(tmp_path / "gone.py"), 1)], "JITFunction")
