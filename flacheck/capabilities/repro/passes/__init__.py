"""The passes in their order.

To add a pass, write a generator function of the first specimen and put it in a list. It yields
candidates, and each `yield` returns True if the candidate was accepted. The function's name is the
name of the pass.
"""

from flacheck.capabilities.repro.passes.aliases import aliases
from flacheck.capabilities.repro.passes.autotuner import (
    arguments,
    body,
    configurations,
    distinct_values,
    keys,
)
from flacheck.capabilities.repro.passes.bare_expressions import bare_expressions
from flacheck.capabilities.repro.passes.blocks import dimensions, pointers, smallest
from flacheck.capabilities.repro.passes.expressions import expressions, sinks
from flacheck.capabilities.repro.passes.launch import (
    dtypes,
    fewer_parameters,
    launch,
    options,
    parameters,
)
from flacheck.capabilities.repro.passes.new_kernels import pipelines, single_slices, slices
from flacheck.capabilities.repro.passes.partial_evaluation import partial_evaluation
from flacheck.capabilities.repro.passes.search import Pass
from flacheck.capabilities.repro.passes.statements import control_flow, statements

# The passes that run first and once, by the kind of failure.
FIRST: tuple[Pass, ...] = (partial_evaluation, smallest, slices)
FRONT_END: tuple[Pass, ...] = (partial_evaluation, bare_expressions, control_flow, sinks)
# For slow compiles: a probe of twelve slices would take twelve times as long.
SLICES: tuple[Pass, ...] = (partial_evaluation, single_slices)
PIPELINE: tuple[Pass, ...] = (partial_evaluation, pipelines)
TUNING_FIRST: tuple[Pass, ...] = (body, distinct_values, configurations)

# The passes that run round after round: those that remove most come first.
PASSES: tuple[Pass, ...] = (
    statements,
    control_flow,
    pointers,
    aliases,
    options,
    sinks,
    dimensions,
    expressions,
    parameters,
    dtypes,
    launch,
    slices,
)
# A kernel over a memory limit must keep its loop, extents and constants to stay over it.
_SHRINKING = (control_flow, dimensions, launch, slices)
PIPELINE_PASSES: tuple[Pass, ...] = tuple(each for each in PASSES if each not in _SHRINKING)
# A launch on a GPU must keep its grid, memory and extents.
ON_CARD_FIRST: tuple[Pass, ...] = (partial_evaluation,)
ON_CARD: tuple[Pass, ...] = (
    statements,
    control_flow,
    aliases,
    options,
    sinks,
    expressions,
    fewer_parameters,
)
TUNING: tuple[Pass, ...] = (keys, arguments, configurations)
