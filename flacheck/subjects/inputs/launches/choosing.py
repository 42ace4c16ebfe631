"""The recorded launches that are compiled, as sources of cells."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from flacheck.errors import UsageError
from flacheck.model import Cut, Kernel, Launch, canonical, digest
from flacheck.model.launch import FLOAT_DTYPES, is_int, tensor_dtypes
from flacheck.model.launch_sizes import HEAD_SIZES, OTHER, PACKED, head_rank, size_class
from flacheck.subjects.inputs.expand import Source
from flacheck.subjects.inputs.launches.entries import RecordedLaunch

# A kernel and the dtype of a launch.
_KernelDtype = tuple[str, str | None]
# With the class of its sizes.
_Kind = tuple[str, str | None, str]
_Key = TypeVar("_Key")
# The dtype in which a kernel is compiled in all usual sizes.
_MAIN_DTYPE = "bf16"


def without_refused(
    entries: Sequence[RecordedLaunch],
) -> tuple[Sequence[RecordedLaunch], tuple[str, ...]]:
    """Return the launches with accepted sources, and a warning for each other kernel.

    Raises UsageError if every source is refused.
    """
    accepted = []
    reasons = {}
    for entry in entries:
        if entry.refused:
            reasons[entry.kernel] = entry.refused
        else:
            accepted.append(entry)
    if not reasons:
        return entries, ()
    if not accepted:
        first = next(iter(reasons.values()))
        raise UsageError(f"{first}: the source is refused; --trust compiles it all the same")
    warnings = []
    for kernel, reason in reasons.items():
        warnings.append(
            f"{reason}: the source of {kernel} is refused and its launches are left out; --trust "
            "compiles them all the same"
        )
    return accepted, tuple(warnings)


def sources(entries: Sequence[RecordedLaunch]) -> list[Source]:
    """Return one source a cut-out kernel with its distinct launches; skip those without text."""
    launches = []
    for entry in entries:
        if entry.text:
            kernel = _kernel(entry, entry.text)
            launches.append((kernel, entry.without_decorators()))
    return group_launches(launches)


def group_launches(launches: Iterable[tuple[Kernel, Launch]]) -> list[Source]:
    """Return one source a kernel, by its digest, with its distinct launches.

    Made-up launches have a source of their own.
    """
    kernels: dict[tuple[str, bool], Kernel] = {}
    by_kernel: dict[tuple[str, bool], dict[str, Launch]] = {}
    for kernel, launch in launches:
        key = kernel.digest, kernel.is_made_up
        kernels.setdefault(key, kernel)
        distinct = by_kernel.setdefault(key, {})
        distinct.setdefault(canonical(launch.to_json()), launch)
    return [Source(kernel, tuple(by_kernel[key].values())) for key, kernel in kernels.items()]


def one_each(entries: Sequence[RecordedLaunch]) -> list[RecordedLaunch]:
    """Return the usual launches of each kernel.

    In bf16, else in the kernel's first dtype, it is one of each common head size and one with
    packed sequences, and one of the commonest size in the other dtypes. A program's own launch
    comes before one that flacheck made up, and a made-up one of one dtype before one that mixes
    dtypes; launches with an argument without a Triton type come last.
    """
    by_kernel: dict[_KernelDtype, dict[str, RecordedLaunch]] = {}
    main_dtypes: dict[str, str | None] = {}
    for entry in entries:
        dtype = main_dtypes.setdefault(entry.kernel, entry.launch.dtype)
        if dtype != _MAIN_DTYPE == entry.launch.dtype:
            main_dtypes[entry.kernel] = _MAIN_DTYPE
    for entry in sorted(entries, key=_preference):
        classes = by_kernel.setdefault((entry.kernel, entry.launch.dtype), {})
        classes.setdefault(size_class(entry.launch.args), entry)
    choice: list[RecordedLaunch] = []
    for (kernel, dtype), classes in by_kernel.items():
        choice += _usual_of(classes, is_main=dtype == main_dtypes[kernel])
    return choice


def _usual_of(classes: Mapping[str, RecordedLaunch], is_main: bool) -> list[RecordedLaunch]:
    """Return the usual ones among the first launches of each class of sizes."""
    sizes = [str(size) for size in HEAD_SIZES if str(size) in classes]
    names = sizes[:1] or [name for name in (OTHER, PACKED) if name in classes][:1]
    if is_main:
        names += [name for name in (*sizes, PACKED) if name in classes and name not in names]
    return [classes[name] for name in names]


def _preference(entry: RecordedLaunch) -> tuple[bool, bool, bool, int]:
    mixes_dtypes = entry.made_up and _mixes_dtypes(entry)
    return _has_unknown(entry), entry.made_up, mixes_dtypes, head_rank(entry.launch.args)


def _mixes_dtypes(entry: RecordedLaunch) -> bool:
    """Return True if tensors have different floating-point dtypes of less than 32 bits."""
    dtypes = set(tensor_dtypes(entry.launch.args.values()))
    return len(dtypes.intersection(FLOAT_DTYPES) - {"fp32", "fp64"}) > 1


def _has_unknown(entry: RecordedLaunch) -> bool:
    for value in entry.launch.args.values():
        if isinstance(value, Mapping) and "unknown" in value:
            return True
    return False


def shared(recordings: Sequence[Sequence[RecordedLaunch]]) -> list[list[RecordedLaunch]]:
    """Return the usual launches of each kernel for each recording.

    If possible they are the same in all recordings that have some of a kernel, dtype and class of
    sizes: the launch that `one_each` chooses for all of them, so that scans and a comparison
    compile the same cells; then a program's own one before one that flacheck made up, and the
    smallest, which compiles soonest.
    """
    choices: list[list[RecordedLaunch]] = [[] for _ in recordings]
    first_choices = [_by_kind(one_each(entries)) for entries in recordings]
    usual_kinds = set[_Kind]().union(*first_choices)
    for kind, group in _group_recordings(recordings, _kind_of).items():
        if kind not in usual_kinds:
            continue
        first_identities = {first_choices[index].get(kind) for index in group}
        common = first_identities.pop()
        if first_identities:
            common = _smallest_common(list(group.values()))
        for index, by_identity in group.items():
            if common is None:
                choices[index].append(min(by_identity.values(), key=_rank))
            else:
                choices[index].append(by_identity[common])
    return choices


def common(recordings: Sequence[Sequence[RecordedLaunch]]) -> list[list[RecordedLaunch]]:
    """Return the launches of each kernel and dtype that all recordings of that kernel have.

    Without a common launch, each recording keeps its own.
    """
    choices: list[list[RecordedLaunch]] = [[] for _ in recordings]
    for group in _group_recordings(recordings, _kernel_dtype).values():
        in_all = set.intersection(*(set(by_identity) for by_identity in group.values()))
        for index, by_identity in group.items():
            for identity, entry in by_identity.items():
                if identity in in_all or not in_all:
                    choices[index].append(entry)
    return choices


def _group_recordings(
    recordings: Sequence[Sequence[RecordedLaunch]], key_of: Callable[[RecordedLaunch], _Key]
) -> dict[_Key, dict[int, dict[str, RecordedLaunch]]]:
    """Return the launches by a key, by recording, and by identity."""
    groups: dict[_Key, dict[int, dict[str, RecordedLaunch]]] = {}
    for index, entries in enumerate(recordings):
        for entry in entries:
            group = groups.setdefault(key_of(entry), {})
            group.setdefault(index, {}).setdefault(_identity(entry), entry)
    return groups


def _kernel_dtype(entry: RecordedLaunch) -> _KernelDtype:
    return entry.kernel, entry.launch.dtype


def _kind_of(entry: RecordedLaunch) -> _Kind:
    return entry.kernel, entry.launch.dtype, size_class(entry.launch.args)


def _by_kind(entries: Iterable[RecordedLaunch]) -> dict[_Kind, str]:
    """Return the identity of the launch of each kernel, dtype and class of sizes."""
    return {_kind_of(entry): _identity(entry) for entry in entries}


def _identity(entry: RecordedLaunch) -> str:
    """Return the identity of a launch among those of its kernel and dtype."""
    return canonical([entry.launch.to_json(), entry.options])


def _smallest_common(recordings: Sequence[Mapping[str, RecordedLaunch]]) -> str | None:
    """Return the identity of the best launch that is in all recordings; None without one."""
    ranks = {}
    for identity in recordings[0]:
        if all(identity in recording for recording in recordings):
            ranks[identity] = max(_rank(recording[identity]) for recording in recordings)
    return min(ranks, key=ranks.__getitem__, default=None)


def _rank(entry: RecordedLaunch) -> tuple[bool, int]:
    """Return True for a made-up launch, and the product of its tiles and sizes."""
    size = 1
    for value in entry.launch.args.values():
        if isinstance(value, Mapping) and "constexpr" in value:
            constant = value["constexpr"]
            if is_int(constant) and constant > 0:
                size *= constant
    return entry.made_up, size


def _kernel(entry: RecordedLaunch, text: str) -> Kernel:
    identity = digest([entry.kernel, entry.package, text, entry.qualname])
    origin = Cut(text, entry.qualname, entry.made_up, entry.candidate)
    return Kernel(entry.kernel, entry.package, identity, origin)
