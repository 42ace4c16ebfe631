"""Findings that are not in a log: limits of the GPU, slow compiles, keys of an autotuner."""

from collections.abc import Iterable, Mapping
from typing import Any

from flacheck.model import Finding, Resources
from flacheck.rules.base import RULES
from flacheck.tables.targets import Target

# A slow compile takes at least these seconds, and this many times the median over releases. Less
# is noise of a busy machine.
SLOW_SECONDS = 10.0
SLOW_RATIO = 5.0
# Registers are handed out in units of this many a thread.
_REGISTER_UNIT = 8
# An autotuner run reports these faults of keys; the first ends the run.
_KEY_FAULTS = {"past-end": "FC601", "shifted": "FC602", "no-argument": "FC603"}


def over_limits(resources: Resources, target: Target) -> list[Finding]:
    """Return findings for resources beyond the target's limits, in the order of Triton's checks."""
    registers = None
    if resources.registers is not None and resources.threads is not None:
        # The hardware rounds each thread's registers up to whole units.
        units = -(-resources.registers // _REGISTER_UNIT)
        registers = units * _REGISTER_UNIT * resources.threads
    demands = (
        ("FC501", "shared memory", resources.shared, target.shared_limit),
        ("FC504", "tensor memory", resources.tensor_memory, target.tensor_memory),
        ("FC502", "threads", resources.threads, target.max_threads),
        ("FC503", "registers", registers, target.registers),
    )
    findings = []
    for code, resource, amount, limit in demands:
        if amount is not None and amount > limit:
            # Worded as Triton words it at run time, so that both have one signature.
            message = f"out of resource: {resource}, Required: {amount}, Hardware limit: {limit}. "
            message += "Reducing block sizes or `num_stages` may help."
            facts = {"required": amount, "limit": limit}
            findings.append(RULES[code].finding(message, facts=facts))
    return findings


def slow(seconds: float, median: float) -> list[Finding]:
    """Return FC921 if a finished compile is slow beside the cell's median over releases."""
    if seconds < SLOW_SECONDS or seconds < SLOW_RATIO * median:
        return []
    facts = {"seconds": round(seconds, 1), "median": round(median, 1)}
    message = f"compiled in {seconds:.1f} s against a median of {median:.1f} s"
    return [RULES["FC921"].finding(message, facts=facts)]


def key_findings(keys: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return one finding for all keys of a fault, run-ending faults first.

    An autotuner run reports each key as `{"key", "want", "got", "fault"}`.
    """
    reports = list(keys)
    findings = []
    for fault, code in _KEY_FAULTS.items():
        faulty = [key for key in reports if key.get("fault") == fault]
        if faulty:
            rule = RULES[code]
            names = ", ".join(str(key["key"]) for key in faulty)
            reads = [f"{key['key']} reads {key.get('got') or 'nothing'}" for key in faulty]
            message = "autotune keys: " + "; ".join(reads)
            facts = {"keys": [dict(key) for key in faulty]}
            findings.append(rule.finding(message, title=f"{rule.title}: {names}", facts=facts))
    return findings
