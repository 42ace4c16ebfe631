"""Types of the messages between flacheck and its workers: plain JSON objects on both sides.

docs/concepts.md defines the words. The messages are not checked here, because flacheck wrote them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypedDict, Union

from .confinement import Policy

# A JITFunction, or the Autotuner and Heuristics around one. Their attributes differ between
# Triton's releases, and none declares types for them.
Kernel = Any
# One argument of a launch: null, a plain value, or an object with one key for its kind ("int",
# "float", "bool", "constexpr", "tuple", "descriptor", or "dtype" with "align"). Captured programs
# may run under Python 3.9, which does not support `|` between types.
ArgumentSpec = Union[dict[str, Any], bool, int, float, str, None]  # noqa: UP007
# Records the stage that a request has reached, in case the process dies.
Mark = Callable[[str], None]


# Where a kernel comes from: a family of our own kernels (`corpus`) and a name in it, or a qualname
# in a text (`source`), in a module beside a stand-in for torch (`module`) or beside torch
# (`import`); `cut` is a text to take where that import fails. Or a translation unit's file
# (`unit`), with the flags and include folders of its build.
KernelOrigin = dict[str, Any]


# A row of flacheck's table of targets: a GPU architecture and one real card of it.
CardRow = dict[str, Any]

# A JSON object.
Json = dict[str, Any]


class Request(TypedDict, total=False):
    """A request to a worker.

    `op` names the operation, `until` the last stage to run, `ir` a module's text. `target` is the
    card's architecture as in the cell (`sm90a`), `timeout` is in seconds. A `launch` has its `args`
    by name, and for an autotuner its `configs` and the names in its key (`keys`). A compile with
    `binary` returns its binary too. The interpreter gets a launch with its `grid` and `memory`: the
    bytes of its `storages`, and the position of each of the `tensors` in them. The runner of
    binaries reads its launch from a `launch_file`. `config` holds the settings of both. Forms of
    operators are called by `dtype`.
    """

    id: int
    op: str
    timeout: float | None
    kernel: KernelOrigin
    card: CardRow
    target: str
    launch: Json
    options: Json
    until: str | None
    ir: str
    binary: bool
    launch_file: str
    config: Json
    grid: list[int]
    dtype: str
    memory: Json


class WorkerConfig(TypedDict, total=False):
    """The configuration of a server.

    It has the compiler's `identity` and folders (`path`), the worker's module (`worker`) or file
    (`worker_file`), and that worker's own settings. `memory_mb` limits the address space; a worker
    that uses more than `recycle_mb` is replaced. Each of the `packages` has a `path` (a folder for
    imports) and the `modules` in it that are the package's own; `includes` are the header folders
    of its build, `headers` those that units may read. With `torch`, the guest's module
    `package_card` holds the card under which packages are imported. `programs` are those that the
    compiler executes and does not bring, `confinement` is the policy of the worker. `trust` is True
    if the user trusts texts of kernels; otherwise they may use Triton's language only. `binding` is
    the module of NVIDIA's driver.
    """

    path: list[str]
    identity: str
    worker: str
    worker_file: str
    packages: dict[str, Json]
    trust: bool
    corpus: str
    torch: str
    package_card: str
    device: str
    toolkit: str
    hosts: dict[str, str]
    library: str
    binding: str
    includes: list[str]
    programs: list[str]
    confinement: Policy
    memory_mb: int
    recycle_mb: int
    scratch: str
    server_pid: int


class Reply(TypedDict, total=False):
    """The result of a request.

    `outcome` is "finished" or "raised", `exception` the class names of an error and its causes,
    `host_error` the machine's error among them (`ENOSPC`, `SIGXFSZ`).
    `tolerated` is True if the release's Autotuner would skip it. `exit_code` belongs to a compiler
    that is a program of its own.
    """

    outcome: str
    stage: str | None
    exit_code: int | None
    seconds: float
    cpu_seconds: float
    peak_mb: float | None
    resources: Json
    facts: Json
    exception: list[str]
    host_error: str | None
    tolerated: bool
    log: str


class CompilerWorker(Protocol):
    """The class `Worker` in a module of `workers` or in a custom module."""

    def run(self, request: Request, mark: Mark) -> Reply:
        """Run a request and return its reply, or raise the compiler's exception."""

    def tolerates(self, error: BaseException) -> bool:
        """Return True if the release's Autotuner would skip a configuration for this error."""
