"""Attempts: what happened when a cell was tried once, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec import convert

from flacheck.model.values import Json


class Outcome(str, Enum):
    """How an attempt ended, before anybody asks why."""

    FINISHED = "finished"
    RAISED = "raised"
    DIED = "died"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_STARTED = "not_started"
    # Nothing was heard of it, or its worker was ended from outside, again and again.
    LOST = "lost"


@dataclass(frozen=True)
class Resources:
    """What a finished compile asks of the GPU: bytes of shared memory, registers a thread, bytes of
    stack a thread, bytes of spills (only where the assembler said them), tensor memory columns.

    Where a compile makes several functions, each figure is that of the function with the most;
    `functions` holds the figures of each, by its `name`.
    """

    shared: int | None = None
    registers: int | None = None
    stack: int | None = None
    spills: int | None = None
    tensor_memory: int | None = None
    threads: int | None = None
    functions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Attempt:
    """What happened when a cell was tried once.

    `log` is all the compiler said on stderr followed by the Python traceback, if any; `exception`
    the class names of the exception chain, outermost first, then their base classes' names that the
    release's own Autotuner forgives (`tolerated`). `seconds` is the compile's wall time and
    `cpu_seconds` its processor time with its children's, worker start and warm-up not counted;
    `facts` holds what an autotuner run found (`keys`: want and got). `oom_killed` is true where the
    system ended processes for want of memory while the attempt ran.
    """

    outcome: Outcome
    stage: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    log: str = ""
    exception: tuple[str, ...] = ()
    tolerated: bool = False
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float | None = None
    resources: Resources = field(default_factory=Resources)
    facts: Mapping[str, Any] = field(default_factory=dict)
    oom_killed: bool = False

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Attempt:
        return convert(value, Attempt)


@dataclass(frozen=True)
class Finding:
    """One named cause. `message` holds the decisive lines, `function` the bare name of the
    compiler's function that complained; `line` (from 1) and `excerpt` place it in a log."""

    code: str
    title: str
    message: str = ""
    function: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    confidence: str = "high"
    line: int | None = None
    excerpt: str = ""

    def to_json(self) -> Json:
        return {"code": self.code, "title": self.title, "facts": dict(self.facts)}
