"""A compiled binary with all that launching it takes, as plain data."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from ..engine.messages import Json

_ENTRY = re.compile(r"\.entry\s+[\w$]+\(([^)]*)\)")
# The pointers behind a kernel's own parameters, in their order: releases before 3.3.0 have none,
# those before 3.5.0 only the first.
_SCRATCH = ("global_scratch", "profile_scratch")
# Sections that only debuggers read, half of a compressed binary: the text of the PTX above all.
_DEBUG_SECTIONS = (b".debug_", b".nv_debug_")
# The first bytes of an ELF binary of 64 bits, and the size of its header.
_ELF, _HEADER_SIZE = b"\x7fELF\x02", 64
# In an ELF header of 64 bits: the place of the section headers, and their size, number and names.
_SECTION_TABLE, _SECTION_COUNTS = (40, "<Q"), (58, "<3H")
# The first fields of a section header: name, type, flags, address, place, size. A section of one
# type has a size and no bytes.
_SECTION, _WITHOUT_BYTES = struct.Struct("<IIQQQQ"), 8


def describe_binary(compiled_kernel: Any, arguments: Mapping[str, Any], warp_size: int) -> Json:
    """Return the binary (`code`, compressed) and its launch.

    A launch takes `entry`, `threads`, `shared` bytes, `cluster` and the attributes `cooperative`
    and `pdl`. Each of the `parameters` has its `type`, and its `value` or the path of its `tensor`;
    `scratch` has size and alignment of the buffers whose pointers follow. A binary that flacheck
    cannot launch names the reason in `unlaunchable`.

    Args:
        compiled_kernel: The release's own compiled kernel.
        arguments: The arguments of the compile by name.
        warp_size: The number of threads of a warp.
    """
    metadata, code = compiled_kernel.metadata, without_debug(compiled_kernel.asm["cubin"])
    parameters = list(_parameters(compiled_kernel.src, arguments))
    scratch, reason = _scratch(compiled_kernel, len(parameters))
    if any(parameter["type"] == "descriptor" for parameter in parameters):
        reason = "it takes tensor descriptors, which the runner cannot make"
    return {
        "digest": hashlib.sha256(code).hexdigest(),
        "code": base64.b64encode(zlib.compress(code)).decode(),
        "entry": metadata.name,
        "threads": metadata.num_warps * warp_size,
        "shared": metadata.shared,
        "cluster": _cluster(metadata),
        "cooperative": bool(getattr(metadata, "launch_cooperative_grid", False)),
        "pdl": bool(getattr(metadata, "launch_pdl", False)),
        "parameters": parameters,
        "scratch": scratch,
        "unlaunchable": reason,
    }


def without_debug(code: bytes) -> bytes:
    """Return an ELF binary with zeros in its debug sections, so that it is compressed to half.

    A binary without a whole table of named sections stays as it is.
    """
    if not code.startswith(_ELF) or len(code) < _HEADER_SIZE:
        return code
    (table,) = struct.unpack_from(_SECTION_TABLE[1], code, _SECTION_TABLE[0])
    size, count, names = struct.unpack_from(_SECTION_COUNTS[1], code, _SECTION_COUNTS[0])
    if names >= count or size < _SECTION.size or table + count * size > len(code):
        return code
    headers = []
    for index in range(count):
        headers.append(_SECTION.unpack_from(code, table + index * size))
    names_place = headers[names][4]
    stripped = bytearray(code)
    for name, kind, _, _, place, length in headers:
        has_bytes = kind != _WITHOUT_BYTES and place + length <= len(code)
        if has_bytes and code.startswith(_DEBUG_SECTIONS, names_place + name):
            stripped[place : place + length] = bytes(length)
    return bytes(stripped)


def _cluster(metadata: Any) -> list[int]:
    """Return the blocks of a cluster; from 3.6.0 on they lie along the grid's first axis."""
    cluster = list(getattr(metadata, "cluster_dims", ()) or ())
    return cluster or [getattr(metadata, "num_ctas", 1), 1, 1]


def _parameters(source: Any, arguments: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the parameters of a binary: the arguments that are not constants of the compile."""
    names = source.fn.arg_names
    for key, kind in source.signature.items():
        # Up to 3.2 the constants are in the signature as well, and up to 3.1 its keys are indices.
        if key in source.constants:
            continue
        name = key if isinstance(key, str) else names[key]
        yield from _flatten(name, kind, arguments.get(name))


def _flatten(path: str, kind: Any, value: Any) -> Iterator[Json]:
    if isinstance(kind, (tuple, list)):
        for index, item in enumerate(kind):
            yield from _flatten(f"{path}[{index}]", item, value[index])
    elif kind == "constexpr":
        return
    elif kind.startswith("*"):
        yield {"type": "pointer", "tensor": path}
    elif "desc" in kind.lower():
        yield {"type": "descriptor", "tensor": path}
    elif kind.startswith(("fp", "bf")):
        # As text, because JSON has no infinity and no NaN.
        yield {"type": kind, "value": float(value).hex()}
    else:
        yield {"type": kind, "value": str(int(value))}


def _scratch(compiled_kernel: Any, own_count: int) -> tuple[list[list[int]], str | None]:
    """Return the scratch buffers behind the parameters, and why the parameters do not fit."""
    match = _ENTRY.search(compiled_kernel.asm["ptx"])
    count = match[1].count(".param") if match else -1
    names = _SCRATCH[: max(0, count - own_count)]
    if own_count + len(names) != count:
        return [], f"the binary takes {count} parameters, and its launch has {own_count}"
    buffers = []
    for name in names:
        size = getattr(compiled_kernel.metadata, f"{name}_size", 0) or 0
        align = getattr(compiled_kernel.metadata, f"{name}_align", 1) or 1
        buffers.append([size, align])
    return buffers, None
