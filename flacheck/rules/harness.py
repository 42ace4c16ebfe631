"""FC9xx: run time, host and harness: what says nothing about the kernel, and what only says it is
slow.
"""

from __future__ import annotations

from flacheck.model import Finding
from flacheck.rules.base import Rule, text

SLOW_SECONDS = 10.0
SLOW_RATIO = 5.0

TIME_OUT = Rule(
    code="FC901",
    name="time-out",
    title="the compile did not end in time",
    summary="The attempt was stopped at its time limit, so nothing is known about the cell.",
    cause="The compiler, often ptxas, is slow on this kernel or loops; the limit cannot tell which.",
    remedy="Raise --timeout, or look for a release or a configuration in which the compile is quick.",
    patterns=text(r"TimeoutExpired: Command .* timed out after (?P<seconds>[\d.]+) seconds"),
    links=("https://github.com/triton-lang/triton/issues/1567",),
    specificity=95,
    effect="unknown",
)
MEMORY = Rule(
    code="FC902",
    name="memory",
    title="the compile ran out of memory on the host",
    summary="The compiler wanted more memory than it was given, so nothing is known about the cell.",
    cause="The process met its memory limit or the system's last free page. This says nothing about the GPU's memory.",
    remedy="Raise --memory, run fewer workers at once (-j), or compile this cell on a larger machine.",
    patterns=text(
        r"std::bad_alloc",
        r"LLVM ERROR: out of memory",
        r"^MemoryError\b",
        r"ptxas.*Memory allocation failure",
        r"(?:catastrophic error: |cc1plus: )out of memory|virtual memory exhausted",
        r"Cannot allocate memory|failed to map segment from shared object",
        r"died with <Signals\.SIGKILL: 9>|died due to signal 9",
        r"^Killed$",
    ),
    specificity=100,
    effect="unknown",
)
NO_WHEEL = Rule(
    code="FC903",
    name="no-wheel",
    title="this compiler has no wheel for this Python",
    summary="The release exists, but not for the Python that asked for it, or no such release exists.",
    cause="Old releases are not rebuilt for new Pythons: Triton 3.1.0 stops at Python 3.12.",
    remedy="Ask with an older Python, or leave the release out.",
    # "from versions: none" is what a network failure looks like.
    patterns=text(
        r"\(from versions: (?!none\))[^)\n]*\)\n(?:[^\n]*\n)??[^\n]*No matching distribution found for "
        r"(?P<requirement>(?:triton|nvidia)[^\s]*)",
        r"Because (?P<requirement>(?:triton|nvidia)\S*) has no wheels with a matching (?:Python|platform|ABI)",
    ),
    specificity=95,
    effect="unknown",
)
SLOW = Rule(
    code="FC921",
    name="slow-compile",
    title="this release compiles the cell far more slowly than others",
    summary=f"The compile takes at least {SLOW_SECONDS:.0f} s and {SLOW_RATIO:.0f} times the median over releases.",
    cause="The code that this release writes keeps the assembler busy, mostly because a type is emulated or a loop is "
    "unrolled. The result is not in doubt.",
    remedy="Nothing must be done. If the time hurts, use a release from the fast ones, another dtype, or fewer "
    "configurations to tune.",
    specificity=10,
    effect="compiles",
)
HARNESS = (TIME_OUT, MEMORY, NO_WHEEL, SLOW)


def slow(seconds: float, median: float) -> list[Finding]:
    """FC921 for a finished compile of `seconds`, if the cell's median over releases makes that
    slow.
    """
    if seconds < SLOW_SECONDS or seconds < SLOW_RATIO * median:
        return []
    facts = {"seconds": round(seconds, 1), "median": round(median, 1)}
    return [
        SLOW.finding(f"compiled in {seconds:.1f} s against a median of {median:.1f} s", facts=facts)
    ]
