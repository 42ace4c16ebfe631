"""FC5xx: the kernel compiles but asks for more than the GPU has."""

from __future__ import annotations

from flacheck.model import Finding, Resources
from flacheck.rules.base import TRITON_ISSUES, Rule, text
from flacheck.tables.targets import Target

# Registers are handed out in units of this many a thread.
REGISTER_UNIT = 8


def _asked(what: str) -> str:
    """Triton's own words for a resource over its limit; old releases and wrappers write them in
    lower case.
    """
    return rf"(?i:out of resource: {what}, required: (?P<required>\d+), hardware limit: (?P<limit>\d+))"


SHARED = Rule(
    code="FC501",
    name="shared-memory",
    title="more shared memory than a block can have on this GPU",
    summary="A block's tiles, times the number of pipeline stages, do not fit into shared memory.",
    cause="Every stage of a software pipeline keeps its own copy of the tiles it loads, so shared memory grows with "
    "the block sizes and with num_stages.",
    remedy="Lower num_stages, or halve a block size. Inside an autotuner the configuration is skipped, so this costs "
    "nothing while another one fits.",
    patterns=text(
        _asked("shared memory"),
        r"uses too much shared data \((?P<required>0x[0-9a-f]+) bytes, (?P<limit>0x[0-9a-f]+) max",
    ),
    links=(
        "https://github.com/fla-org/flash-linear-attention/issues/447",
        "https://github.com/state-spaces/mamba/issues/464",
        f"{TRITON_ISSUES}/8182",
    ),
    specificity=90,
)
THREADS = Rule(
    code="FC502",
    name="threads",
    title="more threads than a block can have",
    summary="num_warps times the warp size is over the limit of a block.",
    cause="A block holds at most 1,024 threads: 32 warps on NVIDIA, 16 waves of 64 on AMD's data-centre GPUs.",
    remedy="Lower num_warps.",
    patterns=text(_asked("threads")),
    specificity=90,
)
REGISTERS = Rule(
    code="FC503",
    name="registers",
    title="more registers than a block can have",
    summary="The kernel cannot be fitted into the registers that are left to each of its threads.",
    cause="A block's threads share the register file, so many warps or a low maxnreg leave few registers a thread; "
    "warp-group MMA needs its accumulators in them and cannot spill.",
    remedy="Raise or drop maxnreg, lower num_warps, or halve a block size.",
    patterns=text(
        _asked("registers"),
        r"Register allocation failed with register count of '(?P<limit>\d+)'",
        r"Insufficient registers \((?P<limit>\d+)\) to compile .* register target of (?P<required>\d+)",
    ),
    links=(f"{TRITON_ISSUES}/5017", "https://github.com/pytorch/helion/issues/85"),
    specificity=90,
)
TENSOR_MEMORY = Rule(
    code="FC504",
    name="tensor-memory",
    title="more tensor memory than a block can have",
    summary="The accumulators of the dots do not fit into the columns of tensor memory.",
    cause="On sm100 the results of dots live in tensor memory, 512 columns for each multiprocessor, and every "
    "accumulator that is alive takes its share.",
    remedy="Halve a block size of the dots, or keep fewer accumulators alive at once.",
    patterns=text(_asked("tensor memory")),
    specificity=90,
)
RESOURCES = (SHARED, THREADS, REGISTERS, TENSOR_MEMORY)


def _over(rule: Rule, what: str, required: int | None, limit: int) -> list[Finding]:
    """The finding, worded as Triton words it at run time, so that both have one signature."""
    if required is None or required <= limit:
        return []
    advice = "Reducing block sizes or `num_stages` may help."
    message = f"out of resource: {what}, Required: {required}, Hardware limit: {limit}. {advice}"
    return [rule.finding(message, facts={"required": required, "limit": limit})]


def _block_registers(resources: Resources) -> int | None:
    """Registers of a whole block, each thread's rounded up to what the hardware hands out."""
    if resources.registers is None or resources.threads is None:
        return None
    units = -(-resources.registers // REGISTER_UNIT)
    return units * REGISTER_UNIT * resources.threads


def over_limits(resources: Resources, target: Target) -> list[Finding]:
    """What a finished compile asks for beyond the target's limits, in the order in which Triton
    looks.
    """
    return [
        *_over(SHARED, "shared memory", resources.shared, target.shared_limit),
        *_over(TENSOR_MEMORY, "tensor memory", resources.tensor_memory, target.tensor_memory),
        *_over(THREADS, "threads", resources.threads, target.max_threads),
        *_over(REGISTERS, "registers", _block_registers(resources), target.registers),
    ]
