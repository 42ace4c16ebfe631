"""Records, cut down to what an analysis compares: a few hundred bytes a cell."""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.model import Launch, Record, Verdict, canonical

_NONE: Mapping[str, str] = {}
# How kernels name their block sizes: BK, BLOCK_M, BLOCK_SIZE_N.
BLOCK = re.compile(r"B[A-Z]\d*|(?:\w+_)?BLOCK\w*")


@dataclass(frozen=True)
class LaunchParts:
    """A launch, taken apart.

    `identity` is the launch without what an autotuner or a caller may tune: two cells with one
    identity are configurations of the same launch. `skeleton` has the tensors' dtypes erased as
    well. `tuned` are the integer constexprs left out, which a fallback may change.
    """

    identity: str
    skeleton: str
    tuned_constants: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ObservedCell:
    """One cell's outcome; strings and mappings are shared between the cells of one `observe`.

    `call` is the launch with its options, `size` the shape, both as canonical JSON. `partial` marks
    a compile that was stopped on request before its last stage, `crashed` an attempt that a signal
    ended. `made_up` says that flacheck's driver invented the arguments; `reason` and `formerly`
    are the record's; `api` is a name of Triton's, or of a module, that the kernel's source asks for
    in vain. `configuration_of` is the key of the cell that the question asks of this launch, where
    it names the launch's other configurations.
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
    formerly: str | None = None
    api: str | None = None
    configuration_of: str | None = None

    @property
    def launch(self) -> tuple[Any, ...]:
        """What all configurations of one launch share."""
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
        """True for a compile that reached its last stage and for a failure; a timeout, a skipped
        cell and a compile with `--until` prove nothing."""
        return self.fails or (self.compiles and not self.partial)

    @property
    def settings(self) -> dict[str, Any]:
        """What a fallback may change: options, tuned constexprs, dtype."""
        return {**self.options, **self.parts.tuned_constants, "dtype": self.dtype}


def observe(
    records: Iterable[Record],
    made_up: Container[str] | None = None,
    configurations: Mapping[str, str] = _NONE,
) -> list[ObservedCell]:
    """All records, each cut down; equal parts are kept once.

    `made_up` are the keys of made-up launches, as the question has them. Without it, what was
    stored of the kernel says so. `configurations` maps the keys of launches of which the question
    names several configurations to that of the one it asks.
    """
    shared: dict[Any, Any] = {}
    observed = []
    for record in records:
        is_made_up = record.cell.kernel.is_made_up
        if made_up is not None:
            is_made_up = record.key in made_up
        of = configurations.get(record.key)
        observed.append(_observed(record, shared, is_made_up, of))
    return observed


def take_apart(launch: Launch | None, shape: Mapping[str, int]) -> LaunchParts:
    """Separate a launch's tuned constexprs from what makes it this launch.

    Without a shape nothing says which integers are sizes, so only parameters left to the autotuner
    (`omitted`) and those named like blocks count as tuned.
    """
    if launch is None:
        return LaunchParts("", "", {})
    tuned, fixed, bare = {}, {}, {}
    for name, arg in launch.args.items():
        value = isinstance(arg, Mapping) and arg.get("constexpr")
        free = shape or name in launch.omitted or BLOCK.fullmatch(name)
        # A truth value is an int to Python, and a flag to a kernel.
        if type(value) is int and name not in shape and free:
            tuned[name] = value
            continue
        fixed[name] = bare[name] = arg
        if isinstance(arg, Mapping):
            bare[name] = {field: part for field, part in arg.items() if field != "dtype"}
    whole = launch.to_json()
    rest = {name: whole[name] for name in ("configs", "keys") if name in whole}
    return LaunchParts(canonical([fixed, rest]), canonical([bare, rest]), tuned)


def _observed(
    record: Record, shared: dict[Any, Any], made_up: bool, configuration_of: str | None
) -> ObservedCell:
    def once(value: Any) -> Any:
        return shared.setdefault(value, value)

    # Equal launches recur on every release and target; taking one apart is what costs.
    size, options = canonical(dict(record.shape)), canonical(dict(record.options))
    launch = ("launch", canonical(record.launch and record.launch.to_json()), size)
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
        seconds=record.seconds,
        verdict=record.verdict,
        tolerated=record.tolerated,
        code=once(record.code),
        signature=once(record.signature),
        stage=once(record.stage),
        # One message a signature is enough to show what it is.
        line=shared.setdefault(("line", record.signature), record.message.partition("\n")[0]),
        # A compile that has a reason beside its verdict was stopped early, on request.
        partial=record.verdict is Verdict.COMPILES and record.reason is not None,
        reason=once(record.reason),
        is_crash=record.signal is not None,
        made_up=made_up,
        formerly=once(record.formerly),
        api=once(_api(record)),
        configuration_of=configuration_of,
    )


def _api(record: Record) -> str | None:
    for finding in record.findings[:1]:
        api: str | None = finding["facts"].get("api")
        return api
    return None
