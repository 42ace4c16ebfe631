"""The passes in their order. To add one, write a class with a `name` and a `search`, and put it here."""

from __future__ import annotations

from flacheck.repro.aliases import Aliases
from flacheck.repro.deletion import Deletion
from flacheck.repro.dimensions import Dimensions
from flacheck.repro.evaluation import Evaluation
from flacheck.repro.expressions import Expressions, Sinks
from flacheck.repro.loops import ControlFlow
from flacheck.repro.options import Constants, DTypes, Options
from flacheck.repro.parameters import Parameters
from flacheck.repro.pipelines import Pipelines
from flacheck.repro.pointers import Pointers
from flacheck.repro.reducer import Pass
from flacheck.repro.slices import Slices

FIRST: tuple[Pass, ...] = (Evaluation(), Slices())
FRONT_END: tuple[Pass, ...] = (Evaluation(), ControlFlow(), Sinks())
# Where every second counts, twelve at once would take twelve times as long.
SLICES: tuple[Pass, ...] = (Evaluation(), Slices(together=1))
PIPELINE: tuple[Pass, ...] = (Evaluation(), Pipelines())
PASSES: tuple[Pass, ...] = (
    Deletion(),
    ControlFlow(),
    Pointers(),
    Aliases(),
    Options(),
    Sinks(),
    Dimensions(),
    Expressions(),
    Parameters(),
    DTypes(),
    Constants(),
    Slices(),
)
PIPELINED: tuple[Pass, ...] = (
    Deletion(),
    Pointers(),
    Aliases(),
    Options(),
    Sinks(),
    Expressions(),
    Parameters(),
    DTypes(),
)
