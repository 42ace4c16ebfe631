"""The nouns: kernel, launch, cell, attempt, finding, record. Plain frozen values, no I/O.

Everything here travels between processes and into the store as JSON, so every type
has a `to_json` that the contract's schemas describe.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

Json = dict[str, Any]
MESSAGE_LIMIT = 2_000


class Verdict(str, Enum):
    """What is known of a cell. Never "correct": a compile cannot show that."""

    COMPILES = "compiles"
    FAILS = "fails"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class Outcome(str, Enum):
    """How an attempt ended, before anybody asks why."""

    FINISHED = "finished"
    RAISED = "raised"
    DIED = "died"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_STARTED = "not_started"


def canonical(value: Any) -> str:
    """JSON with sorted keys and no white space: the form that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any, length: int = 32) -> str:
    """The first `length` hex digits of the SHA-256 of a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]


@dataclass(frozen=True)
class Kernel:
    """What is compiled: a `@triton.jit` function or a translation unit.

    `origin` tells the guest how to load it and is one of `{"corpus": "retention", "name":
    "chunk_fwd_o"}`, `{"module": "fla.ops.common.chunk_o", "qualname": "chunk_fwd_kernel_o"}`
    (beside a stand-in for torch), `{"import": "fla.ops.common.chunk_o", "qualname":
    "chunk_fwd_kernel_o"}` (beside torch itself), `{"source": "import triton…", "qualname":
    "kernel"}` or, for other compilers, whatever their worker reads. `digest` is a hash of the
    source with all that it uses; `operator` and `form` ("chunk", "fused_recurrent") group kernels
    that compute the same thing differently.
    """

    name: str
    package: str | None
    digest: str
    origin: Mapping[str, Any]
    operator: str | None = None
    form: str | None = None

    def to_json(self) -> Json:
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "origin": dict(self.origin),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Kernel:
        return Kernel(**value)


@dataclass(frozen=True)
class Launch:
    """One call of a kernel without data, in the contract's form.

    `args` maps a parameter to `{"dtype", "align"}`, `{"int"}`, `{"float"}`, `None` or
    `{"constexpr"}`; `omitted` are the parameters the caller leaves to the autotuner.
    An autotuner run also carries its `configs` and `keys`.
    """

    args: Mapping[str, Any]
    omitted: tuple[str, ...] = ()
    configs: tuple[Mapping[str, Any], ...] = ()
    keys: tuple[str, ...] = ()

    def to_json(self) -> Json:
        out: Json = {"args": dict(self.args)}
        if self.omitted:
            out["omitted"] = list(self.omitted)
        if self.configs:
            out["configs"] = [dict(c) for c in self.configs]
        if self.keys:
            out["keys"] = list(self.keys)
        return out

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Launch:
        return Launch(
            args=dict(value["args"]),
            omitted=tuple(value.get("omitted", ())),
            configs=tuple(value.get("configs", ())),
            keys=tuple(value.get("keys", ())),
        )


@dataclass(frozen=True)
class Cell:
    """launch × options × target × toolchain: the unit of work, caching, sharding and merging.

    `toolchain` is a compiler at an exact version (`triton==3.2.0`); `stage` is `compile` or
    `autotune`; `until` names the last stage to run, None for all. `dtype`, `shape` and `configs`,
    the autotuner's list that this launch was filled from, only describe the launch; they are no
    part of the key.
    """

    kernel: Kernel
    toolchain: str
    target: str
    launch: Launch | None
    options: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    shape: Mapping[str, int] = field(default_factory=dict)
    widened: bool = False
    stage: str = "compile"
    until: str | None = None
    configs: tuple[Mapping[str, Any], ...] = ()

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def key(self) -> str:
        """Content hash of everything that can change the outcome; needs no import of the kernel."""
        return digest(
            {
                "kernel": [self.kernel.name, self.kernel.digest],
                "launch": self.launch.to_json() if self.launch else None,
                "options": dict(self.options),
                "target": self.target,
                "toolchain": self.toolchain,
                "stage": self.stage,
                "until": self.until,
            }
        )


@dataclass(frozen=True)
class Resources:
    """What a finished compile asks of the GPU: bytes of shared memory, registers a thread, bytes of
    stack a thread, bytes of spills (only where the assembler said them), tensor memory columns."""

    shared: int | None = None
    registers: int | None = None
    stack: int | None = None
    spills: int | None = None
    tensor_memory: int | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Attempt:
    """What happened when a cell was tried once.

    `log` is all the compiler said on stderr followed by the Python traceback, if any; `exception`
    the class names of the exception chain, outermost first, then their base classes' names that the
    release's own Autotuner forgives (`tolerated`). `seconds` is the compile's wall time and
    `cpu_seconds` its processor time with its children's, worker start and warm-up not counted;
    `facts` holds what an autotuner run found (`keys`: want and got).
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

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Attempt:
        plain = dict(value)
        plain["outcome"] = Outcome(plain["outcome"])
        plain["exception"] = tuple(plain.get("exception", ()))
        plain["resources"] = Resources(**plain.get("resources") or {})
        return Attempt(**plain)


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


@dataclass(frozen=True)
class Record:
    """cell + attempt + verdict + findings: what is stored and reported, in the contract's form."""

    key: str
    kernel: str
    package: str | None
    how: str
    toolchain: str
    target: str
    dtype: str | None
    shape: Mapping[str, int]
    launch: Mapping[str, Any] | None
    options: Mapping[str, Any]
    widened: bool
    verdict: Verdict
    reason: str | None
    tolerated: bool
    code: str | None
    signature: str | None
    stage: str | None
    signal: str | None
    message: str
    findings: tuple[Mapping[str, Any], ...]
    seconds: float
    peak_mb: float | None
    cached: bool
    resources: Mapping[str, Any]

    def to_json(self) -> Json:
        out = {name: getattr(self, name) for name in self.__dataclass_fields__}
        out["verdict"] = self.verdict.value
        out["findings"] = list(self.findings)
        return out

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Record:
        plain = dict(value)
        plain["verdict"] = Verdict(plain["verdict"])
        plain["findings"] = tuple(plain["findings"])
        return Record(**plain)

    def with_(self, **changes: Any) -> Record:
        return replace(self, **changes)
