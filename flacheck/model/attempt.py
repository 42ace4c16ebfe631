"""Attempts: the outcome of one try of a cell, and its classification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec import convert


class Outcome(str, Enum):
    """The way an attempt ended, before its cause is classified."""

    FINISHED = "finished"
    RAISED = "raised"
    DIED = "died"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_STARTED = "not_started"
    # The attempt ended without a result, or its worker was killed from outside several times.
    LOST = "lost"


@dataclass(frozen=True)
class Resources:
    """GPU resources of a finished compile.

    Bytes of shared memory, registers a thread, bytes of stack a thread, bytes of spills (only if
    the assembler reports them) and tensor memory columns. If a compile makes several functions,
    each figure is the maximum over them; `functions` holds the figures of each by `name`.
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
    """The result of one try of a cell.

    `log` is the compiler's stderr followed by the Python traceback, if any. `exception` holds the
    class names of the exception chain, outermost first, then those of their base classes that the
    release's own Autotuner catches (`tolerated`). `seconds` is the compile's wall time and
    `cpu_seconds` its processor time with that of its children; both exclude worker start and
    warm-up. `facts` holds the observations of an autotuner run (`keys`: expected and actual).
    `host_error` is the error of the machine that ended the attempt, by its name in C (`ENOSPC`,
    `SIGXFSZ`): a limit, the disk, the sandbox, a signal from outside.
    `oom_killed` is true if the system killed processes for lack of memory while the attempt ran.
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
    host_error: str | None = None

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Attempt:
        return convert(value, Attempt)


@dataclass(frozen=True)
class Finding:
    """One named cause of an outcome.

    `message` holds the decisive lines, `function` the bare name of the compiler function that
    reported the error; `line` (from 1) and `excerpt` place it in a log.
    """

    code: str
    title: str
    message: str = ""
    function: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    confidence: str = "certain"
    line: int | None = None
    excerpt: str = ""
