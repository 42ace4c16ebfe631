"""What travels between flacheck and its workers, as types: plain JSON objects on both sides. The
words are those of docs/concepts.md. Nothing checks them here: flacheck wrote what arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypedDict, Union

from .confinement import Policy

# A JITFunction, or the Autotuner and Heuristics around one. Triton's releases differ in all that
# these have, and none declares types for it.
Kernel = Any
# One argument of a launch: null, a plain value, or an object with one key that says what it is
# ("int", "float", "bool", "constexpr", "tuple", "descriptor", or "dtype" with "align").
# Captured programs may run under Python 3.9, which knows no `|` between types.
ArgumentSpec = Union[dict[str, Any], bool, int, float, str, None]  # noqa: UP007
# Tells flacheck how far a request got, should the process die: takes the name of a stage.
Mark = Callable[[str], None]


# Where a kernel comes from: a family of our own kernels (`corpus`) and a name in it, or a qualname
# in a text (`source`), in a module beside a stand-in for torch (`module`) or beside torch
# (`import`); `cut` is a text to take where that import fails. Or a translation unit's file
# (`unit`), with the flags and include folders of its build.
KernelOrigin = dict[str, Any]


# A row of flacheck's table of targets: a GPU architecture and one real card of it.
CardRow = dict[str, Any]


class Request(TypedDict, total=False):
    """What a worker is asked. `op` names the operation, `until` the last stage to run, `ir` a
    module's text; `target` is the card's architecture as the cell has it (`sm90a`); `timeout` is in
    seconds; a `launch` has its `args` by name, for an autotuner its `configs` and the names in its
    key (`keys`). A worker with a card is asked for a launch by its
    id, with the configuration to time. Our own kernels are launched there by `dtype` and `shape`,
    others with `memory`: `storages` in bytes, and where each of the `tensors` lies in them."""

    id: int
    op: str
    timeout: float | None
    kernel: KernelOrigin
    card: CardRow
    target: str
    launch: dict[str, Any]
    options: dict[str, Any]
    until: str | None
    ir: str
    launch_id: str
    config: dict[str, Any]
    grid: list[int]
    dtype: str
    shape: dict[str, int]
    memory: dict[str, Any]


class WorkerConfig(TypedDict, total=False):
    """What a server is started with: the compiler's `identity` and folders (`path`), which worker
    of ours (`worker`) or whose (`worker_file`), and what that worker needs. `memory_mb` bounds the
    address space; a worker that holds more than `recycle_mb` is replaced. Each of the `packages`
    has a `path`, a folder for imports, and the `modules` in it that are the package's own; its
    build's folders of headers are its `includes`, those that units may read its `headers`. Beside
    `torch`, the guest's module `package_card` holds the card that they are imported under.
    `programs` are those that the compiler executes and does not bring, `confinement` is the policy
    of the worker. `trust` is the user's word for texts of kernels; other texts are held to
    Triton's language."""

    path: list[str]
    identity: str
    worker: str
    worker_file: str
    packages: dict[str, dict[str, Any]]
    trust: bool
    corpus: str
    torch: str
    package_card: str
    device: str
    toolkit: str
    hosts: dict[str, str]
    library: str
    includes: list[str]
    programs: list[str]
    confinement: Policy
    memory_mb: int
    recycle_mb: int
    scratch: str
    server_pid: int


class Reply(TypedDict, total=False):
    """What a request came to. `outcome` is "finished" or "raised", `exception` the class names of
    an error and its causes, `tolerated` whether the release's Autotuner would skip it; `exit_code`
    is that of a compiler that is a program of its own."""

    outcome: str
    stage: str | None
    exit_code: int | None
    seconds: float
    cpu_seconds: float
    peak_mb: float | None
    resources: dict[str, Any]
    facts: dict[str, Any]
    exception: list[str]
    tolerated: bool
    log: str


class CompilerWorker(Protocol):
    """What a module of `workers`, or a custom one, makes of a config under the name `Worker`."""

    def run(self, request: Request, mark: Mark) -> Reply:
        """Answer a request, or raise whatever the compiler raises."""

    def tolerates(self, error: BaseException) -> bool:
        """Whether the release's Autotuner would skip a configuration for this error."""
