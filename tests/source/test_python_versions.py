"""Python versions that a module compares its own with."""

import pytest

from flacheck.source.python_versions import PythonVersions, read

NONE = PythonVersions()
OPEN = PythonVersions(is_open=True)


def _bounds(*versions: str) -> PythonVersions:
    return PythonVersions(frozenset(versions))


@pytest.mark.parametrize(
    ("source", "bounds"),
    [
        ("import sys\nif sys.version_info >= (3, 12): pass", _bounds("3.12")),
        ("import sys\nif (3, 10) > sys.version_info: pass", _bounds("3.10")),
        ("import sys\nif (3, 10) <= sys.version_info: pass", _bounds("3.10")),
        ("import sys\nif sys.version_info[:2] == (3, 12): pass", OPEN),
        ("import sys\nif (3, 9) <= sys.version_info < (3, 12): pass", OPEN),
        ("import sys\nprint(sys.version_info)", OPEN),
        ("import sys\nself.version = sys.version_info", OPEN),
        ("import os\nif os.name >= '3.11': pass", NONE),
        (
            "own = parse(f'{sys.version_info.major}.{sys.version_info.minor}')\n"
            "least = parse('3.11' if IS_ARM else '3.10')\n"
            "if own < least: warn(f'{own} is old')",
            _bounds("3.10", "3.11"),
        ),
        ("own = sys.version_info\nuse(own)", OPEN),
    ],
)
def test_comparisons_with_a_version_are_bounds(source: str, bounds: PythonVersions) -> None:
    """Any other use of the version leaves the dependence open."""
    assert read(source.encode()) == bounds
