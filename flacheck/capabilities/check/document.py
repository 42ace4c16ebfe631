"""The document flacheck.check/1."""

from __future__ import annotations

from typing import Literal

from flacheck.errors import Exit
from flacheck.evidence.analysis.standing_state import Share, StandingState
from flacheck.evidence.measured.comparison import SlowOperator
from flacheck.model.answer import Answer, VerdictWord
from flacheck.model.wire import Code, JsonStruct, NotEmpty, ToolchainName


class CheckedBuild(JsonStruct, frozen=True, kw_only=True):
    """A distribution; `release` is null for a build between two releases."""

    name: NotEmpty
    version: NotEmpty
    release: str | None
    origin: str


class CheckedFailure(JsonStruct, frozen=True, kw_only=True):
    """A failing kernel; `operator` is a public function that launches it, with its condition.

    `since` is the oldest release of an unbroken series that has the failure. `decides` is false for
    a failure that models do not meet.
    """

    operator: NotEmpty
    kernel: NotEmpty
    code: Code
    since: ToolchainName
    decides: bool


class CheckedPackage(JsonStruct, frozen=True, kw_only=True):
    """A package under the Triton and on the GPU of the environment; null without results.

    `measured_on` are the GPUs on which the release was measured beside another one, `slower` the
    operators that take longer there. Without any nothing is known of speed.
    """

    about: NotEmpty
    standing: StandingState | None
    kernels: Share | None
    configurations: Share | None
    failures: tuple[CheckedFailure, ...]
    advisories: tuple[str, ...]
    measured_on: tuple[str, ...]
    slower: tuple[SlowOperator, ...]


class MachineCheck(JsonStruct, frozen=True, kw_only=True):
    """A check of this machine, as in `flacheck doctor`."""

    name: NotEmpty
    ok: bool
    detail: str
    remedy: str


class BestPair(JsonStruct, frozen=True, kw_only=True):
    """The best release for all packages; `changes` is what it mends and breaks."""

    triton: NotEmpty
    torch: str | None
    changes: tuple[str, ...]


class Checked(Answer, frozen=True, kw_only=True):
    """An environment with the answer to "does it work?".

    `command` is the line that makes torch and Triton belong together, empty if they do;
    `contradictions` are pins of the project that exclude what is installed.
    """

    schema: Literal["flacheck.check/1"]
    source: NotEmpty
    torch: CheckedBuild | None
    tritons: tuple[CheckedBuild, ...]
    gpu: str | None
    driver: str | None
    target: str | None
    fits: bool
    command: str
    contradictions: tuple[str, ...]
    packages: tuple[CheckedPackage, ...]
    machine: tuple[MachineCheck, ...]
    best: BestPair | None

    def exit_code(self) -> Exit:
        """Return the exit code of a gate about the same releases."""
        is_failing = any(each.standing is StandingState.BAD for each in self.packages)
        if not self.fits or self.contradictions or is_failing:
            return Exit.FINDINGS
        if self.verdict is VerdictWord.UNKNOWN:
            return Exit.INCOMPLETE
        return Exit.OK
