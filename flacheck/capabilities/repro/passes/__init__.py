"""The passes in their order. To add one, write a generator function of the specimen to start from
that yields candidates and is sent whether each was taken, and put it in a list; its name is the
function's."""

from flacheck.capabilities.repro.passes.aliases import aliases
from flacheck.capabilities.repro.passes.autotuner import (
    arguments,
    body,
    configurations,
    distinct_values,
    keys,
)
from flacheck.capabilities.repro.passes.blocks import dimensions, pointers, smallest
from flacheck.capabilities.repro.passes.expressions import expressions, sinks
from flacheck.capabilities.repro.passes.launch import dtypes, launch, options, parameters
from flacheck.capabilities.repro.passes.new_kernels import pipelines, single_slices, slices
from flacheck.capabilities.repro.passes.partial_evaluation import partial_evaluation
from flacheck.capabilities.repro.passes.search import Pass
from flacheck.capabilities.repro.passes.statements import control_flow, statements

# Those that run first and once, by the kind of failure.
FIRST: tuple[Pass, ...] = (partial_evaluation, smallest, slices)
FRONT_END: tuple[Pass, ...] = (partial_evaluation, control_flow, sinks)
# Where every second counts, twelve at once would take twelve times as long.
SLICES: tuple[Pass, ...] = (partial_evaluation, single_slices)
PIPELINE: tuple[Pass, ...] = (partial_evaluation, pipelines)
TUNING_FIRST: tuple[Pass, ...] = (body, distinct_values, configurations)

# Those that run round after round: what removes most comes first, what only polishes last.
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
# Where memory is what fails, nothing smaller fails so: the loop, extents and constants stay.
_SHRINKING = (control_flow, dimensions, launch, slices)
PIPELINE_PASSES: tuple[Pass, ...] = tuple(one for one in PASSES if one not in _SHRINKING)
TUNING: tuple[Pass, ...] = (keys, arguments, configurations)
