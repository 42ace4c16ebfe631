"""Findings that no log holds: limits of the GPU, slow compiles, keys of an autotuner."""

from collections.abc import Iterable, Mapping
from typing import Any

from flacheck.model import Finding, Resources
from flacheck.rules.base import RULES
from flacheck.tables.targets import Target

# A compile is slow when it takes so many seconds, and so many times the median over releases: less
# is noise of a busy machine.
SLOW_SECONDS = 10.0
SLOW_RATIO = 5.0
# Registers are handed out in units of this many a thread.
_REGISTER_UNIT = 8
# An autotuner run reports these faults of keys; the first ends the run.
_KEY_FAULTS = {"past-end": "FC601", "shifted": "FC602", "no-argument": "FC603"}


def over_limits(resources: Resources, target: Target) -> list[Finding]:
    """What a finished compile asks for beyond the target's limits, in the order in which Triton
    looks."""
    registers = None
    if resources.registers is not None and resources.threads is not None:
        # Each thread's registers are rounded up to what the hardware hands out.
        units = -(-resources.registers // _REGISTER_UNIT)
        registers = units * _REGISTER_UNIT * resources.threads
    asked = (
        ("FC501", "shared memory", resources.shared, target.shared_limit),
        ("FC504", "tensor memory", resources.tensor_memory, target.tensor_memory),
        ("FC502", "threads", resources.threads, target.max_threads),
        ("FC503", "registers", registers, target.registers),
    )
    findings = []
    for code, what, required, limit in asked:
        if required is not None and required > limit:
            # Worded as Triton words it at run time, so that both have one signature.
            message = f"out of resource: {what}, Required: {required}, Hardware limit: {limit}. "
            message += "Reducing block sizes or `num_stages` may help."
            facts = {"required": required, "limit": limit}
            findings.append(RULES[code].finding(message, facts=facts))
    return findings


def slow(seconds: float, median: float) -> list[Finding]:
    """FC921 for a finished compile of `seconds`, if the cell's median over releases makes that
    slow."""
    if seconds < SLOW_SECONDS or seconds < SLOW_RATIO * median:
        return []
    facts = {"seconds": round(seconds, 1), "median": round(median, 1)}
    message = f"compiled in {seconds:.1f} s against a median of {median:.1f} s"
    return [RULES["FC921"].finding(message, facts=facts)]


def key_findings(keys: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Findings for `{"key", "want", "got", "fault"}` as an autotuner run reports them, one for all
    keys of one fault, run-ending faults first."""
    audited = list(keys)
    findings = []
    for fault, code in _KEY_FAULTS.items():
        faulty = [key for key in audited if key.get("fault") == fault]
        if faulty:
            rule = RULES[code]
            names = ", ".join(str(key["key"]) for key in faulty)
            reads = [f"{key['key']} reads {key.get('got') or 'nothing'}" for key in faulty]
            message = "autotune keys: " + "; ".join(reads)
            facts = {"keys": [dict(key) for key in faulty]}
            findings.append(rule.finding(message, title=f"{rule.title}: {names}", facts=facts))
    return findings
