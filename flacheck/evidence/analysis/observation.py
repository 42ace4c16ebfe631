"""Records, reduced to the fields that an analysis compares: a few hundred bytes a cell."""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.model import Launch, Record, Verdict, canonical
from flacheck.model.launch_sizes import head_size, is_packed, takes_packed

_NONE: Mapping[str, str] = {}
# Names of block sizes in kernels: BK, BLOCK_M, BLOCK_SIZE_N.
BLOCK = re.compile(r"B[A-Z]\d*|(?:\w+_)?BLOCK\w*")


@dataclass(frozen=True)
class LaunchParts:
    """A launch, split into parts.

    `identity` is the launch without the values that an autotuner or a caller may tune: two cells
    with one identity are configurations of the same launch. `skeleton` has the tensors' dtypes
    erased as well. `tuned_constants` are the integer constexprs left out, which a fallback may
    change. `head_size` and `is_packed` are None for a kernel without head sizes, or without a
    parameter for the offsets of packed sequences.
    """

    identity: str
    skeleton: str
    tuned_constants: Mapping[str, int]
    head_size: int | None = None
    is_packed: bool | None = None


@dataclass(frozen=True, slots=True)
class ObservedCell:
    """The outcome of one cell; the cells of one `observe` share strings and mappings.

    `call` is the launch with its options, `size` the shape, both as canonical JSON. `partial` marks
    a compile that was stopped on request before its last stage, `is_crash` an attempt that a signal
    ended. `made_up` marks arguments that flacheck's driver invented; `reason` is the
    record's; `api` is a name of Triton or of a module that the kernel's source uses and the
    release lacks. `instantiation` are the template arguments with which a
    C++ error occurs. If the question lists several configurations of this launch,
    `configuration_of` is the key of the cell that it requests.
    """

    key: str
    kernel: str
    package: str | None
    toolchain: str
    target: str
    dtype: str | None
    shape: Mapping[str, int]
    size: str
    parts: LaunchParts
    options: Mapping[str, Any]
    call: str
    seconds: float
    verdict: Verdict
    tolerated: bool
    code: str | None
    signature: str | None
    stage: str | None
    line: str
    partial: bool = False
    reason: str | None = None
    is_crash: bool = False
    made_up: bool = False
    api: str | None = None
    instantiation: str | None = None
    configuration_of: str | None = None

    @property
    def launch(self) -> tuple[Any, ...]:
        """Identity shared by all configurations of one launch."""
        if self.configuration_of is not None:
            return self.package, self.kernel, self.configuration_of
        return self.package, self.kernel, self.dtype, self.size, self.parts.identity

    @property
    def place(self) -> tuple[str, str]:
        return self.toolchain, self.target

    @property
    def compiles(self) -> bool:
        return self.verdict is Verdict.COMPILES

    @property
    def fails(self) -> bool:
        return self.verdict is Verdict.FAILS

    @property
    def is_evidence(self) -> bool:
        """True for a compile that reached its last stage and for a failure.

        A timeout, a skipped cell and a compile with `--until` prove nothing.
        """
        return self.fails or (self.compiles and not self.partial)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that a fallback may change: options, tuned constexprs, dtype."""
        return {**self.options, **self.parts.tuned_constants, "dtype": self.dtype}


def observe(
    records: Iterable[Record],
    made_up: Container[str] | None = None,
    configurations: Mapping[str, str] = _NONE,
) -> list[ObservedCell]:
    """Return all records, each reduced to an observed cell; equal parts are stored once.

    `made_up` are the keys of made-up launches in the question; without it, the stored kernels
    decide. For launches with several configurations in the question, `configurations` maps their
    keys to that of the requested one.
    """
    shared: dict[Any, Any] = {}
    cells = []
    for record in records:
        is_made_up = record.cell.kernel.is_made_up
        if made_up is not None:
            is_made_up = record.key in made_up
        of = configurations.get(record.key)
        cells.append(_observe(record, shared, is_made_up, of))
    return cells


def take_apart(launch: Launch | None, shape: Mapping[str, int]) -> LaunchParts:
    """Separate a launch's tuned constexprs from its identity.

    Without a shape the integer sizes are unknown, so only parameters left to the autotuner
    (`omitted`) and those named like blocks count as tuned.
    """
    if launch is None:
        return LaunchParts("", "", {})
    tunable, others, bare = {}, {}, {}
    for name, arg in launch.args.items():
        value = isinstance(arg, Mapping) and arg.get("constexpr")
        free = shape or name in launch.omitted or BLOCK.fullmatch(name)
        # In Python a bool is an int; in a kernel it is a flag.
        if type(value) is int and name not in shape and free:
            tunable[name] = value
            continue
        others[name] = bare[name] = arg
        if isinstance(arg, Mapping):
            bare[name] = {field: part for field, part in arg.items() if field != "dtype"}
    whole = launch.to_json()
    rest = {}
    for name in ("configs", "keys"):
        if name in whole:
            rest[name] = whole[name]
    return LaunchParts(
        canonical([others, rest]),
        canonical([bare, rest]),
        tunable,
        head_size(launch.args),
        is_packed(launch.args) if takes_packed(launch.args) else None,
    )


def _observe(
    record: Record, shared: dict[Any, Any], made_up: bool, configuration_of: str | None
) -> ObservedCell:
    def once(value: Any) -> Any:
        return shared.setdefault(value, value)

    # Equal launches recur on every release and target, and splitting one is the expensive step.
    size, options = canonical(dict(record.shape)), canonical(dict(record.options))
    launch = ("launch", canonical(record.launch and record.launch.to_json()), size)
    facts = _decisive_facts(record)
    if launch not in shared:
        shared[launch] = take_apart(record.launch, record.shape)
    return ObservedCell(
        key=record.key,
        kernel=once(record.kernel),
        package=once(record.package),
        toolchain=once(record.toolchain),
        target=once(record.target),
        dtype=once(record.dtype),
        shape=shared.setdefault(("shape", size), record.shape),
        size=once(size),
        parts=shared[launch],
        options=shared.setdefault(("options", options), record.options),
        call=once(launch[1] + options),
        seconds=record.compile_seconds,
        verdict=record.verdict,
        tolerated=record.tolerated,
        code=once(record.code),
        signature=once(record.signature),
        stage=once(record.stage),
        # One message per signature is enough to show it.
        line=shared.setdefault(("line", record.signature), record.message.partition("\n")[0]),
        # A compile that has a reason beside its verdict was stopped early, on request.
        partial=record.verdict is Verdict.COMPILES and record.reason is not None,
        reason=once(record.reason),
        is_crash=record.signal is not None,
        made_up=made_up,
        api=once(facts.get("api")),
        instantiation=once(facts.get("instantiation")),
        configuration_of=configuration_of,
    )


def _decisive_facts(record: Record) -> Mapping[str, Any]:
    """Return the facts of the finding that decides a record's verdict."""
    for finding in record.findings[:1]:
        facts: Mapping[str, Any] = finding["facts"]
        return facts
    return {}
