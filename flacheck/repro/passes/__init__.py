"""The passes in their order. To add one, write a class with a `name` and a `search`, and put it
here.
"""

from __future__ import annotations

from flacheck.repro.passes.aliases import Aliases
from flacheck.repro.passes.deletion import Deletion
from flacheck.repro.passes.dimensions import Dimensions
from flacheck.repro.passes.evaluation import Evaluation
from flacheck.repro.passes.expressions import Expressions, Sinks
from flacheck.repro.passes.loops import ControlFlow
from flacheck.repro.passes.options import Constants, DTypes, Options
from flacheck.repro.passes.parameters import Parameters
from flacheck.repro.passes.pipelines import Pipelines
from flacheck.repro.passes.pointers import Pointers
from flacheck.repro.passes.slices import Slices
from flacheck.repro.reducer import Pass

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
