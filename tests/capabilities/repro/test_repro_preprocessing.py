"""Files of `repro` for a CUDA unit, which is not reduced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flacheck.capabilities.repro import preprocessing
from flacheck.capabilities.repro.original import NotReproduced
from flacheck.model import Attempt, Cell, Kernel, Outcome, Unit

CELL = Cell(Kernel("csrc/fwd.cu", "a==1", "0", Unit("csrc/fwd.cu")), "nvcc==13.0.88", "sm90a", None)


class FixedCompilers:
    """Compilers that return one attempt for every request."""

    def __init__(self, **attempt: object) -> None:
        self._attempt = Attempt(**attempt)  # type: ignore[arg-type]

    def ask(self, cell: Cell, **changes: object) -> Attempt:
        assert changes == {"op": "preprocess", "until": None}
        return self._attempt


def test_the_unit_is_written_with_a_script_that_compiles_it(tmp_path: Path) -> None:
    """The script is executable and contains no local path."""
    facts = {"text": "int a;", "name": "fwd.cpp1.ii", "commands": ['"$CUDA_HOME/bin/ptxas" x']}
    texts = preprocessing.texts(CELL, FixedCompilers(outcome=Outcome.FINISHED, facts=facts))  # type: ignore[arg-type]
    paths = preprocessing.write(texts, tmp_path / "repro")
    assert [path.name for path in paths] == ["fwd.cpp1.ii", "repro.sh"]
    assert os.access(tmp_path / "repro" / "repro.sh", os.X_OK)
    assert '"$CUDA_HOME/bin/ptxas" x || exit 0' in texts["repro.sh"]


def test_a_unit_that_is_not_preprocessed_says_why() -> None:
    """The error names the missing header."""
    compilers = FixedCompilers(outcome=Outcome.RAISED, log="a.cu:1: fatal error: b.h: No such file")
    with pytest.raises(NotReproduced, match=r"b\.h"):
        preprocessing.texts(CELL, compilers)  # type: ignore[arg-type]
