"""A pyproject.toml: extras, groups and Poetry's tables, each pin with its line."""

from __future__ import annotations

import sys

import pytest

from flacheck.errors import UsageError
from flacheck.gate import sources
from flacheck.gate.sources import poetry
from tests.made_pin_files import no_warning, read, write

pytestmark = pytest.mark.usefixtures("here")


PROJECT = """
[build-system]
requires = ["torch==1.0"]

[project]
name = "My.Project"
dependencies = [
    "numpy",
    "triton>=3.2",  # for the kernels
]
[project.optional-dependencies]
cu-12 = ['torch (>=2.6)']
all = ["my_project[CU_12]", "rich"]
docs = ["sphinx"]

[dependency-groups]
lint = ["ruff"]
Test_GPU = ["pytest", "triton<3.9"]
dev = [{include-group = "test-gpu"}, {include-group = "lint"}]
"""


def test_extras_and_groups_are_installations_of_their_own() -> None:
    """Beside the project's own pins; extras of the project and included groups are followed."""
    base, torch, group = (
        "pyproject.toml:9 triton>=3.2",
        "pyproject.toml:12 torch>=2.6",
        "pyproject.toml:18 triton<3.9",
    )
    assert read(write("pyproject.toml", PROJECT)) == {
        "pyproject.toml": [base],
        "pyproject.toml (extra cu-12)": [base, torch],
        "pyproject.toml (extra all)": [base, torch],
        "pyproject.toml (group Test_GPU)": [base, group],
        "pyproject.toml (group dev)": [base, group],
    }


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[project\n", "pyproject.toml:1: not valid TOML"),
        (
            '[project]\ndependencies = "triton"\n',
            "pyproject.toml:2: project.dependencies must be a list",
        ),
        (
            '[project]\ndependencies = [\n"a",\n"triton>>3"]\n',
            "pyproject.toml:4: 'triton>>3' is no requirement",
        ),
        ("[project]\ndependencies = [\n3]\n", "pyproject.toml:2: a requirement is a text"),
        (
            '[dependency-groups]\na = [{include-group = "b"}]\n',
            "pyproject.toml:2: there is no dependency group 'b'",
        ),
        (
            '[dependency-groups]\na = [{include-group = "b"}]\nb = [{include-group = "a"}]\n',
            "pyproject.toml:3: dependency groups include each other: a → b → a",
        ),
        (
            '[tool.poetry.dependencies]\ntriton = "^x"\n',
            "pyproject.toml:2: '^x' is no version constraint",
        ),
        (
            '[tool.poetry.dependencies]\ntriton = {version = "3", markers = "no"}\n',
            "pyproject.toml:2: 'no' is no environ",
        ),
        (
            '[tool.poetry]\ndependencies = "triton"\n',
            "pyproject.toml:2: tool.poetry.dependencies must be a table",
        ),
    ],
)
def test_a_bad_pyproject_is_an_error_with_file_and_line(text: str, where: str) -> None:
    """Syntax, kinds, requirements, circles."""
    with no_warning(), pytest.raises(UsageError) as caught:
        sources.of_files([write("pyproject.toml", text)])
    assert str(caught.value).startswith(where)


def test_poetrys_tables() -> None:
    """Strings, tables, several constraints, optional dependencies, both kinds of groups."""
    minor = sys.version_info.minor
    text = f"""
[tool.poetry.dependencies]
python = "^3.9"
triton = {{version = "^3.2", markers = "sys_platform == 'linux'"}}
torch = [
    {{version = "~2.6", python = "<3.{minor}"}},
    {{version = "~2.7", python = ">=3.{minor}"}},
    {{version = "2.5.0", platform = "darwin"}},
]
[tool.poetry.dev-dependencies]
triton = "3.4.*"
[tool.poetry.group.gpu.dependencies]
triton = {{version = "3.3.0 || >=3.5,<3.6", optional = true}}
"""
    base = ["pyproject.toml:4 triton>=3.2,<4", "pyproject.toml:7 torch>=2.7,<2.8"]
    assert read(write("pyproject.toml", text)) == {
        "pyproject.toml": base,
        "pyproject.toml (group dev)": [*base, "pyproject.toml:11 triton==3.4.*"],
        "pyproject.toml (group gpu)": [*base, "pyproject.toml:13 triton==3.3.0 || >=3.5,<3.6"],
    }


@pytest.mark.parametrize(
    ("constraint", "specifier"),
    [
        ("^1.2.3", ">=1.2.3,<2"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("^0.0", ">=0.0,<0.1"),
        ("^0", ">=0,<1"),
        ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1.2", ">=1.2,<1.3"),
        ("~1", ">=1,<2"),
        ("~=3.8.0", "~=3.8.0"),
        ("3.4", "==3.4"),
        ("=3.4", "==3.4"),
        ("3.*", "==3.*"),
        ("*", ""),
        (">= 3.2 <3.9, != 3.3.0", ">=3.2,<3.9,!=3.3.0"),
        ("^2.6 || ~3.1", ">=2.6,<3 || >=3.1,<3.2"),
    ],
)
def test_poetrys_constraints_as_pep_440(constraint: str, specifier: str) -> None:
    """As Poetry's documentation explains them."""
    assert poetry.pep440(constraint, "x") == specifier
