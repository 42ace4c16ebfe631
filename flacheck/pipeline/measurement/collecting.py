"""From a job to a bundle: compile what is missing, and describe each launch with its binaries."""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import convert

from flacheck.errors import EmptySelection, UsageError
from flacheck.model import Cell, Json, Record, Verdict
from flacheck.model.launch import FLOAT_DTYPES
from flacheck.pipeline.events import Event, RecordSettled
from flacheck.pipeline.job import Job
from flacheck.pipeline.measurement.bundle import (
    SCHEMA,
    Binary,
    Bundle,
    BundledLaunch,
    BundledTensor,
    BundleManifest,
    Variant,
)
from flacheck.pipeline.measurement.launches import (
    MeasuredLaunch,
    MeasuredLaunches,
    has_inferred_tensors,
)
from flacheck.pipeline.run import run_plan
from flacheck.store import Store
from flacheck.store.binaries import Binaries
from flacheck.tables import targets
from flacheck.version import __version__


def collect(
    job: Job, choice: MeasuredLaunches, store: Store, folder: Path
) -> Generator[Event, None, Bundle]:
    """Compile the cells without a binary and return the bundle; its binaries lie in the folder.

    Raises:
        UsageError: If the launches are for several GPUs, or for one without binaries.
        EmptySelection: If no launch can be measured.
    """
    target = _one_target(choice.plan.cells)
    records: dict[str, Record] = {}
    for event in run_plan(choice.plan, store, job.options):
        if isinstance(event, RecordSettled):
            records[event.record.key] = event.record
        yield event
    launches = []
    toolchains: dict[str, None] = {}
    for launch in choice.launches:
        toolchains |= dict.fromkeys(cell.toolchain for cell, _, _ in launch.cells)
        launches.append(bundled_launch(launch, variants_of(launch, records, folder)))
    manifest = BundleManifest(
        schema=SCHEMA,
        flacheck=__version__,
        about=choice.plan.name,
        target=target,
        toolchains=tuple(toolchains),
        launches=tuple(launches),
        left_out=dict(choice.left_out),
    )
    return Bundle(manifest, folder)


def _one_target(cells: Sequence[Cell]) -> str:
    if not cells:
        raise EmptySelection("no recorded launch of the selection can be repeated on a GPU")
    names = sorted({cell.target for cell in cells})
    if len(names) > 1:
        raise UsageError(
            f"a measurement is of one GPU, and the launches are for {', '.join(names)}: name one "
            "with --target"
        )
    if targets.find(names[0]).backend != "cuda":
        raise UsageError(f"{names[0]}: only binaries for NVIDIA's GPUs can be measured")
    return names[0]


def variants_of(
    launch: MeasuredLaunch, records: Mapping[str, Record], folder: Path
) -> list[Variant]:
    """Return a variant for each cell of a launch; the binaries are laid into the folder."""
    binaries = Binaries()
    variants = []
    for cell, config, grid in launch.cells:
        variants.append(_variant(cell, config, grid, records.get(cell.key), binaries, folder))
    return variants


def _variant(
    cell: Cell,
    config: Mapping[str, Any],
    grid: tuple[int, ...],
    record: Record | None,
    binaries: Binaries,
    folder: Path,
) -> Variant:
    entry = None
    if record is None or record.verdict is Verdict.COMPILES:
        # Others may have a binary that no GPU of the target can load.
        entry = binaries.read(cell.key)
    problem = None
    if entry is None:
        problem = _why_missing(record)
    elif entry["unlaunchable"]:
        problem = entry["unlaunchable"]
    binary = None
    if entry is not None and problem is None:
        binary = lay_binary(entry, folder)
    return Variant(cell.toolchain, cell.key, dict(config), grid, binary, problem)


def lay_binary(entry: Json, folder: Path) -> Binary:
    """Write the code of a worker's binary into the folder; return what its launch takes."""
    binary = convert({name: entry[name] for name in Binary.__struct_fields__}, Binary)
    (folder / binary.digest).write_bytes(base64.b64decode(entry["code"]))
    return binary


def _why_missing(record: Record | None) -> str:
    if record is None:
        return "it was not compiled"
    if record.verdict is Verdict.COMPILES:
        return "its compile returned no binary"
    reason = record.code or record.reason or record.message or "without a reason"
    return f"it does not compile: {reason}"[:500]


def bundled_launch(launch: MeasuredLaunch, variants: Sequence[Variant]) -> BundledLaunch:
    """Return a recorded launch with its variants as a part of a bundle."""
    entry = launch.recorded
    assert entry.memory is not None
    dtypes: dict[str, str] = {}
    for name, spec in {**entry.launch.args, **entry.heuristics}.items():
        dtypes |= dict(_dtypes_of(name, spec))
    tensors = {}
    for path, placement in entry.memory.tensors.items():
        if path in dtypes:
            place = (placement.shape, placement.strides, placement.offset, placement.values)
            tensors[path] = BundledTensor(placement.storage, dtypes[path], *place)
    return BundledLaunch(
        kernel=entry.kernel,
        package=entry.package,
        dtype=entry.launch.dtype,
        by=entry.by,
        made_up=_why_made_up(launch, tensors),
        operators=launch.operators,
        storages=entry.memory.storages,
        tensors=tensors,
        variants=tuple(variants),
    )


def without_binaries(measured: MeasuredLaunches) -> list[BundledLaunch]:
    """Return the launches as parts of a bundle, with variants that have no binary."""
    launches = []
    for launch in measured.launches:
        variants = []
        for cell, config, grid in launch.cells:
            variants.append(Variant(cell.toolchain, cell.key, dict(config), grid, None))
        launches.append(bundled_launch(launch, variants))
    return launches


def _why_made_up(launch: MeasuredLaunch, tensors: Mapping[str, BundledTensor]) -> str | None:
    """Return why a launch's arguments may not fit its kernel; None for a program's own launch."""
    entry = launch.recorded
    if entry.made_up:
        return "flacheck made up its arguments"
    if has_inferred_tensors(entry):
        return f"flacheck inferred the shapes of its tensors ({entry.call})"
    if entry.guessed:
        return f"it may depend on a made-up value that was read at {entry.guessed}"
    return unknown_integers(tensors)


def unknown_integers(tensors: Mapping[str, BundledTensor]) -> str | None:
    """Return the reason why zeros stand for a tensor's integers; None if all were recorded."""
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOAT_DTYPES and tensor.values is None:
            return f"the integers of {name} ({tensor.dtype}) were not recorded or too many"
    return None


def _dtypes_of(path: str, spec: Json | None) -> Iterator[tuple[str, str]]:
    """Yield the path and dtype of each tensor in an argument."""
    if not isinstance(spec, Mapping):
        return
    for index, item in enumerate(spec.get("tuple", ())):
        yield from _dtypes_of(f"{path}[{index}]", item)
    form = spec.get("descriptor", spec)
    if "dtype" in form:
        yield path, form["dtype"]
