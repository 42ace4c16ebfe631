"""The table of GPUs: one row a target, with its limits and the document they come from."""

import re
from dataclasses import dataclass

from flacheck.errors import UsageError, did_you_mean

CUDA_GUIDE = "CUDA C++ Programming Guide, appendix Compute Capabilities, technical specifications"
KIB = 1024


# 32-bit vector registers that a block of CDNA can have: a compute unit's 4 SIMDs of 512 for each of
# 64 lanes, 512 KiB (rocm.docs.amd.com/en/latest/reference/gpu-specs.html, "VGPR File").
_CDNA_REGISTERS = 4 * 512 * 64
# One of gfx1100 and gfx1201: LLVM compiles for work-group processors, of 4 SIMDs, and has 1,536 for
# each of 32 lanes on a SIMD of these (github.com/llvm/llvm-project/pull/86468 and .../96272).
_RDNA_REGISTERS = 4 * 1536 * 32


@dataclass(frozen=True)
class Multiprocessor:
    """Capacities of one multiprocessor, and the units in which they are allocated.

    `shared` and `shared_unit` are bytes, `shared_reserved` the bytes of each block that the system
    reserves; `blocks` and `warps` the most that reside; `register_unit` the registers to which a
    warp's share is rounded up; `partitions` the parts among which warps and registers are divided.
    Source: the guide's table; for the units, cuda_occupancy.h of the CUDA toolkit.
    """

    shared: int
    blocks: int
    warps: int
    shared_reserved: int = KIB
    shared_unit: int = 128
    registers: int = 65_536
    register_unit: int = 256
    partitions: int = 4


@dataclass(frozen=True)
class Target:
    """A GPU architecture and one real card of it.

    `arch` is the compiler's name for it (90 or "gfx942"); `shared_limit` the bytes of shared memory
    (LDS) that a block can have after opting in; `registers` the 32-bit registers a block can have,
    `thread_registers` a thread; `tensor_memory` the columns of tensor memory, 0 if it has none;
    `multiprocessors` and `memory_gb` describe the card `gpu` as its driver reports it.
    """

    name: str
    backend: str
    arch: int | str
    warp_size: int
    gpu: str
    capability: tuple[int, int]
    shared_limit: int
    multiprocessors: int
    memory_gb: int
    source: str
    aliases: tuple[str, ...] = ()
    bf16: bool = True
    max_threads: int = 1024
    registers: int = 65_536
    thread_registers: int = 255
    tensor_memory: int = 0
    experimental: bool = False

    @property
    def multiprocessor(self) -> Multiprocessor | None:
        """Capacities of one of its multiprocessors; None without a published table (AMD)."""
        return _MULTIPROCESSORS.get(self.name)


def _cuda_row(
    arch: int,
    gpu: str,
    shared_kib: int,
    multiprocessors: int,
    memory_gb: int,
    sheet: str,
    aliases: tuple[str, ...],
    tensor_memory: int = 0,
) -> Target:
    """Return a row for NVIDIA.

    The guide's table gives the block limits, `sheet` the card's size.
    """
    return Target(
        name=f"sm{arch}",
        backend="cuda",
        arch=arch,
        warp_size=32,
        gpu=gpu,
        capability=divmod(arch, 10),
        shared_limit=shared_kib * KIB,
        multiprocessors=multiprocessors,
        memory_gb=memory_gb,
        source=f"{CUDA_GUIDE}; {sheet}",
        aliases=aliases,
        # Ampere is the first architecture with bf16.
        bf16=arch >= 80,
        tensor_memory=tensor_memory,
    )


def _hip_row(
    arch: str,
    gpu: str,
    capability: tuple[int, int],
    lds_kib: int,
    warp_size: int,
    multiprocessors: int,
    memory_gb: int,
    aliases: tuple[str, ...],
) -> Target:
    """Return a row for AMD.

    It is experimental, since none of its verdicts was compared with a card.
    """
    # A lane of CDNA has 512 registers, accumulators included, one of RDNA 256.
    thread_registers = {64: 512, 32: 256}
    registers = {64: _CDNA_REGISTERS, 32: _RDNA_REGISTERS}
    return Target(
        name=arch,
        backend="hip",
        arch=arch,
        warp_size=warp_size,
        gpu=gpu,
        capability=capability,
        shared_limit=lds_kib * KIB,
        multiprocessors=multiprocessors,
        memory_gb=memory_gb,
        source="ROCm documentation, GPU hardware specifications (LDS, compute units, memory)",
        aliases=aliases,
        registers=registers[warp_size],
        thread_registers=thread_registers[warp_size],
        experimental=True,
    )


_ROWS = (
    _cuda_row(70, "Tesla V100-SXM2-32GB", 96, 80, 32, "V100 data sheet", ("v100",)),
    _cuda_row(75, "Tesla T4", 64, 40, 16, "T4 data sheet", ("t4", "rtx2080")),
    _cuda_row(
        80, "NVIDIA A100-SXM4-80GB", 163, 108, 80, "A100 data sheet", ("a100", "a800", "a30")
    ),
    _cuda_row(
        86,
        "NVIDIA GeForce RTX 3090",
        99,
        82,
        24,
        "GA102 white paper",
        ("rtx3090", "a10", "a40", "a6000"),
    ),
    _cuda_row(87, "Orin", 163, 16, 64, "Jetson AGX Orin 64GB data sheet", ("orin", "agxorin")),
    _cuda_row(
        89,
        "NVIDIA GeForce RTX 4090",
        99,
        128,
        24,
        "AD102 white paper",
        ("rtx4090", "l4", "l40", "l40s"),
    ),
    _cuda_row(
        90,
        "NVIDIA H100 80GB HBM3",
        227,
        132,
        80,
        "H100 data sheet",
        ("h100", "h200", "h800", "h20", "gh200"),
    ),
    _cuda_row(
        100,
        "NVIDIA B200",
        227,
        148,
        180,
        "Blackwell data sheet",
        ("b200", "b100", "gb200"),
        tensor_memory=512,
    ),
    # 2.1 TB of memory on the eight cards of an HGX B300; nvidia-smi prints 275,040 MiB a card
    # (github.com/QwenLM/FlashQLA/pull/29). NVIDIA's description of the die has 160 multiprocessors,
    # programs on B300 cards count 148. The capability is that of developer.nvidia.com/cuda-gpus.
    _cuda_row(
        103,
        "NVIDIA B300 SXM6 AC",
        227,
        148,
        268,
        "HGX B300 data sheet",
        ("b300", "gb300"),
        tensor_memory=512,
    ),
    # 2,560 cores, 128 on each multiprocessor. It was sm101 before CUDA 13.0.
    _cuda_row(
        110,
        "NVIDIA Thor",
        227,
        20,
        128,
        "Jetson T5000 data sheet; github.com/apache/tvm/pull/20259 for the limit on the card",
        ("thor", "agxthor"),
        tensor_memory=512,
    ),
    _cuda_row(
        120,
        "NVIDIA GeForce RTX 5090",
        99,
        170,
        32,
        "RTX Blackwell white paper",
        ("rtx5090", "rtxpro6000"),
    ),
    # 6,144 cores, 128 on each multiprocessor.
    _cuda_row(121, "NVIDIA GB10", 99, 48, 128, "DGX Spark data sheet", ("gb10", "dgxspark")),
    _hip_row(
        "gfx90a", "AMD Instinct MI250X", (9, 0), 64, 64, 110, 64, ("mi210", "mi250", "mi250x")
    ),
    _hip_row(
        "gfx942", "AMD Instinct MI300X", (9, 4), 64, 64, 304, 192, ("mi300", "mi300x", "mi325x")
    ),
    _hip_row(
        "gfx950", "AMD Instinct MI350X", (9, 5), 160, 64, 256, 288, ("mi350", "mi350x", "mi355x")
    ),
    # HIP counts work-group processors, two compute units each, on these two.
    _hip_row("gfx1100", "AMD Radeon RX 7900 XTX", (11, 0), 64, 32, 48, 24, ("rx7900xtx",)),
    _hip_row("gfx1201", "AMD Radeon RX 9070 XT", (12, 0), 64, 32, 32, 16, ("rx9070xt",)),
)

# Not fields of a row: a captured package's key covers the row, and these values do not change the
# launches.
_MULTIPROCESSORS = {
    "sm70": Multiprocessor(96 * KIB, blocks=32, warps=64, shared_reserved=0, shared_unit=256),
    "sm75": Multiprocessor(64 * KIB, blocks=16, warps=32, shared_reserved=0, shared_unit=256),
    "sm80": Multiprocessor(164 * KIB, blocks=32, warps=64),
    "sm86": Multiprocessor(100 * KIB, blocks=16, warps=48),
    "sm87": Multiprocessor(164 * KIB, blocks=16, warps=48),
    "sm89": Multiprocessor(100 * KIB, blocks=24, warps=48),
    "sm90": Multiprocessor(228 * KIB, blocks=32, warps=64),
    "sm100": Multiprocessor(228 * KIB, blocks=32, warps=64),
    "sm103": Multiprocessor(228 * KIB, blocks=32, warps=64),
    "sm110": Multiprocessor(228 * KIB, blocks=24, warps=48),
    "sm120": Multiprocessor(100 * KIB, blocks=24, warps=48),
    "sm121": Multiprocessor(100 * KIB, blocks=24, warps=48),
}

TARGETS: dict[str, Target] = {row.name: row for row in _ROWS}
# Further cards, not fields of a row either, from NVIDIA's list of compute capabilities.
_MORE_CARDS = {
    "sm70": "titanv",
    "sm75": "gtx1650 gtx1660 rtx2060 rtx2070 titanrtx",
    "sm86": "a10g rtx3050 rtx3060 rtx3070 rtx3080 a2 a16 a2000 a4000 a4500 a5000 a5500",
    "sm87": "orinnx orinnano",
    "sm89": "rtx4050 rtx4060 rtx4070 rtx4080 l2 l20 rtx4000ada rtx5000ada rtx6000ada",
    "sm120": "rtx5050 rtx5060 rtx5070 rtx5080",
}
_ALIASES = {alias: row for row in _ROWS for alias in row.aliases} | {
    card: TARGETS[name] for name, cards in _MORE_CARDS.items() for card in cards.split()
}
# Suffixes after a card's name in drivers and shops: its socket, memory or variant.
_VARIANT = re.compile(r"sxm\d?|pcie|nvl|hbm\de?|\d+gb|ti|super|laptop|gpu|generation|ac")


def cell_target_name(name: str) -> str:
    """Return the name of the target `name` in cells of C++.

    It keeps the letter of features that only this GPU (`sm90a`) or its family (`sm100f`) has,
    because C++ compilers distinguish these targets from the plain one.
    """
    target = find(name)
    letter = re.fullmatch(r"(?i)(?:cuda:)?(?:sm|compute)?_?\d+(?:\.\d)?([af])", name.strip())
    if letter is None:
        return target.name
    return target.name + letter[1].lower()


def spellings(name: str) -> set[str]:
    """Return the names of a target in cells: `sm90a` also finds Triton's cells for sm90."""
    return {find(name).name, cell_target_name(name)}


def find(name: str) -> Target:
    """Return the target called `name`.

    A name is `sm90`, `sm_90a`, `90`, `9.0`, `cuda:90`, `gfx942`, a card such as `h100`, or its
    driver's name (`NVIDIA A100-SXM4-80GB`). Raises UsageError for an unknown one.
    """
    words = re.split(r"[\s_-]+", name.strip().lower())
    # The first word is always the card's own.
    words = words[:1] + [word for word in words[1:] if not _VARIANT.fullmatch(word)]
    plain = re.sub(r"[.]|^(cuda|hip):", "", "".join(words))
    plain = re.sub(r"^(nvidia|amd|geforce|tesla|instinct|radeon|jetson|rtx(?=a))+", "", plain)
    # 90a and 100f are sm90 and sm100 with features that no other GPU has.
    plain = re.sub(r"^(?:sm|compute)?(\d{2,3})[af]?$", r"sm\1", plain)
    target = TARGETS.get(plain) or _ALIASES.get(plain)
    if target is None:
        hint = did_you_mean(plain, [*TARGETS, *_ALIASES])
        raise UsageError(f"unknown target {name!r}; the targets are {', '.join(TARGETS)}{hint}")
    return target
