"""Bundles for a fake GPU: every binary is the behaviour of a kernel in `tests.fake_card`."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from flacheck.model import digest
from flacheck.pipeline.measurement.bundle import (
    SCHEMA,
    Binary,
    Bundle,
    BundledLaunch,
    BundledTensor,
    BundleManifest,
    Parameter,
    Variant,
)
from tests.paths import TESTS

BINDING = ("fake_card", str(TESTS))
COUNT = 2_000
RELEASES = ("triton==3.5.1", "triton==3.6.0", "triton==3.7.1", "triton==3.8.0")
_PARAMETERS = (
    Parameter("pointer", "x"),
    Parameter("pointer", "y"),
    Parameter("i32", value=str(COUNT)),
)


def binary(folder: Path, behaviour: str, microseconds: float = 20.0, shared: int = 0) -> Binary:
    """Lay a binary with this behaviour into the folder."""
    code = json.dumps({"behaviour": behaviour, "microseconds": microseconds}).encode()
    name = hashlib.sha256(code).hexdigest()
    (folder / name).write_bytes(zlib.compress(code))
    return Binary(name, "kernel", 128, shared, (1, 1, 1), False, False, _PARAMETERS, ())


def launch(
    folder: Path,
    *behaviours: str | tuple[str, float],
    made_up: str | None = None,
    kernel: str = "package.module:kernel",
    operators: tuple[str, ...] = ("package.operator",),
    output: str = "fp32",
    **more: Any,
) -> BundledLaunch:
    """Return a launch with a binary of each behaviour (and its microseconds), one a release.

    Its input has the dtype fp32, and its output the dtype `output`.
    """
    variants = []
    for release, behaviour in zip(RELEASES, behaviours):
        parts = behaviour if isinstance(behaviour, tuple) else (behaviour,)
        key = digest([kernel, release, parts])
        variants.append(Variant(release, key, {}, (16,), binary(folder, *parts, **more)))
    tensors = {
        "x": BundledTensor(0, "fp32", (COUNT,), (1,), 0),
        "y": BundledTensor(1, output, (COUNT,), (1,), 0),
    }
    return BundledLaunch(
        kernel=kernel,
        package="package==1.0",
        dtype="fp32",
        by="a test",
        made_up=made_up,
        operators=operators,
        storages=(4 * COUNT, 4 * COUNT),
        tensors=tensors,
        variants=tuple(variants),
    )


def bundle(folder: Path, *launches: BundledLaunch) -> Bundle:
    """Return a bundle of launches whose binaries lie in the folder."""
    manifest = BundleManifest(SCHEMA, "0", "package==1.0", "sm90", RELEASES, launches)
    return Bundle(manifest, folder)
