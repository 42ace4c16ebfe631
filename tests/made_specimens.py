"""Specimens, and a compiler that fails by a predicate, for the tests of reduction."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from flacheck import toolchains
from flacheck.capabilities.repro.budget import Budget
from flacheck.capabilities.repro.compilers import Compilers, provide_releases
from flacheck.capabilities.repro.kernel.expression_types import Types
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import callee_name
from flacheck.capabilities.repro.oracle import Oracle, same_signature
from flacheck.capabilities.repro.output.script import DOES_NOT, SHOWS
from flacheck.capabilities.repro.passes.search import Pass
from flacheck.capabilities.repro.reducer import reduce
from flacheck.capabilities.repro.verification import ScriptRun
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.model import Attempt, Cell, Cut, Outcome, Verdict
from flacheck.toolchains.base import Toolchain
from tests.made_records import record

HEAD = "import triton\nimport triton.language as tl\n\n\n"
POINTER = {"dtype": "fp16", "align": 16}
FAILS, SIGNATURE = "triton==3.2.0", "FC302:llir:reshapeOuts:29a22a5b"
# The compilers of this process that give types.
_COMPILERS: list[Compilers] = []
FAILING = record("fails", code="FC302", signature=SIGNATURE)
DIES = Attempt(
    Outcome.DIED,
    stage="llir",
    signal="SIGABRT",
    log="LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: "
    "Assertion `ok' failed.",
)
SLIPS = Attempt(
    Outcome.RAISED,
    stage="llir",
    log="LLVM ERROR: Unsupported rounding mode for conversion",
    exception=("RuntimeError",),
)


def end_front_end() -> None:
    """End the worker that gives types; the next request starts another."""
    for compilers in _COMPILERS:
        compilers.reset()


@functools.cache
def _installed_front_end() -> Callable[[Specimen], Types]:
    own = toolchains.resolve(["installed"]).choices[0].identity
    compilers = Compilers(provide_releases(own, "sm90", [own]), {}, trust=True)
    _COMPILERS.append(compilers)
    return compilers.types_on(own)


def front_end(one: Specimen) -> Types:
    """Return the types that the installed Triton gives the expressions of a specimen."""
    return _installed_front_end()(one)


def specimen(
    body: str, prelude: str = "", options: dict[str, Any] | None = None, **args: Any
) -> Specimen:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    parameters = ", ".join(
        f"{name}: tl.constexpr" if isinstance(spec, dict) and "constexpr" in spec else name
        for name, spec in args.items()
    )
    source = f"{HEAD}{prelude}@triton.jit\ndef kernel({parameters}):\n{lines}"
    return Specimen(source, "kernel", args, "sm90", options or {}, front_end=front_end)


CHAIN = """\
i = tl.program_id(0)
p = x + (i * M + tl.arange(0, M))[:, None] * N + tl.arange(0, N)[None, :]
acc = tl.zeros([M, M], dtype=tl.float32)
for t in range(T):
    a = tl.load(p, mask=tl.arange(0, N)[None, :] < i)
    g = tl.exp(a.to(tl.float32))
    b = (a * g).to(a.dtype)
    s = tl.dot(b, tl.trans(a))
    acc += s
tl.store(y + tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :], acc)"""


def chain() -> Specimen:
    return specimen(
        CHAIN,
        x=POINTER,
        y={"dtype": "fp32", "align": 16},
        T={"int": 8},
        M={"constexpr": 64},
        N={"constexpr": 128},
        options={"num_warps": 8, "num_stages": 3},
    )


class FakeCompilers(Compilers):
    """Compilers that fail on one release by a predicate, everywhere by `slips`, without a worker."""

    def __init__(
        self, fails: Callable[[Specimen], bool], slips: Callable[[Specimen], bool] = lambda s: False
    ) -> None:
        super().__init__({}, {})
        self._fails, self._slips = fails, slips
        self.asked: list[tuple[str, str | None]] = []

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        self.asked.append((cell.toolchain, cell.until))
        candidate = specimen_of(cell)
        if cell.toolchain == FAILS and self._fails(candidate):
            return DIES
        if self._slips(candidate):
            return SLIPS
        return Attempt(Outcome.FINISHED)


def specimen_of(cell: Cell) -> Specimen:
    """The specimen that a cell was made of."""
    assert isinstance(cell.kernel.origin, Cut)
    assert cell.launch is not None
    source, name = cell.kernel.origin.source, cell.kernel.origin.qualname
    launch = cell.launch
    return Specimen(
        source, name, launch.args, cell.target, cell.options, cell.stage, launch.omitted
    )


def calls(one: Specimen, name: str) -> int:
    return sum(callee_name(node) == name for node in ast.walk(one.function))


@dataclass
class FakeOracle:
    """An oracle that tests a predicate and compiles nothing; its time stands still."""

    holds: Callable[[Specimen], bool]
    elapsed_seconds: float = 0.0
    search_end: float = inf

    def __call__(self, specimen: Specimen) -> bool:
        return self.holds(specimen)

    fails = hides = __call__

    def check(self) -> None:
        """Never end the search."""


def reduce_by(start: Specimen, holds: Callable[[Specimen], bool], *passes: Pass) -> Specimen:
    best = start
    for step in reduce(start, (), passes, FakeOracle(holds)):
        best = step.best
    return best


def two_dots(one: Specimen) -> bool:
    return calls(one, "tl.dot") >= 1 and one.options.get("num_warps") == 8


def shown_on(version: str) -> Callable[..., list[ScriptRun]]:
    """Return a stand-in for `run_script` whose scripts show the failure on this release alone."""

    def run_script(
        script: str, toolchain: Toolchain, seconds: float, times: int, torch: str | None
    ) -> list[ScriptRun]:
        status = SHOWS if toolchain.version == version else DOES_NOT
        return [ScriptRun(status, "it printed this")] * times

    return run_script


def oracle(compilers: FakeCompilers, compiles: int | None = None) -> Oracle:
    compilers.budget = Budget(compiles)
    compiles_there = ReleaseVerdict(Verdict.COMPILES)
    contrasts = dict.fromkeys(("triton==3.1.0", "triton==3.4.0"), compiles_there)
    return Oracle(compilers, FAILS, same_signature(FAILING), contrasts)
