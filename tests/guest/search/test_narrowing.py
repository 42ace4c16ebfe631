"""`--op` and `--kernel` capture what can reach a selected function or kernel, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guest.search.test_drive import (  # noqa: F401
    KERNELS,
    OPS,
    driven,
    package,
    pytestmark,
)


@pytest.mark.parametrize(
    ("selection", "sought", "operators"),
    [
        (
            {"ops": ["told_by_*"]},
            {"tiny.kernels:rare"},
            {"tiny.ops:told_by_its_error"},
        ),
        (
            {"kernels": ["scale_back"]},
            {"tiny.kernels:scale_back"},
            {"tiny.ops:documented", "tiny.ops:Scale"},
        ),
    ],
)
def test_only_what_leads_to_the_selection_is_called(
    tmp_path: Path, selection: dict[str, list[str]], sought: set[str], operators: set[str]
) -> None:
    """The report names the kernels that were sought; other operators are not in it."""
    folder = package(tmp_path, kernels=KERNELS, ops=OPS)
    launches, report = driven(folder, dtypes=["bf16"], **selection)
    assert set(report["sought"]) == sought
    assert set(report["operators"]) <= operators
    assert sought <= {launch.kernel for launch in launches.launches}


def test_a_selection_without_a_match_calls_nothing(tmp_path: Path) -> None:
    """The capture is empty, and its report lists no sought kernels."""
    folder = package(tmp_path, kernels=KERNELS, ops=OPS)
    launches, report = driven(folder, dtypes=["bf16"], ops=["no_such_*"])
    assert (launches.launches, report["sought"], report["operators"]) == ((), [], {})
