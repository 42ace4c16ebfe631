"""The context of a log: whose GPU, which compiler and which system its failure belongs to."""

import re
from dataclasses import dataclass

_VENDORS = {
    "amd": re.compile(
        r"\bgfx\d{3,4}\w?\b|\bhipcc\b|\bhipError|\bHIP error|\.hip\b|\brocm\d?\b|/opt/rocm|\bROCm\b"
        r"|\bHSA_STATUS_|\bMIOpen\b|\bROCBLAS|\bHIP_|\bAMD (?:Instinct|Radeon)"
    ),
    "intel": re.compile(
        r"\bxpu\b|\bXPU\b|\b(?:ZE_RESULT|UR_RESULT|PI_ERROR)_|intel_extension_for_pytorch"
        r"|\btriton[-_]xpu\b|backends[/\\]intel\b|\bIntel\(R\) (?:Arc|Data Center)"
    ),
    "nvidia": re.compile(
        r"\bsm_?\d{2,3}[af]?\b|\bcompute_\d{2,3}|\b(?:ptxas|nvcc|cicc|nvlink)\b|\bNVIDIA\b|\bCUDA\b"
        r"|\bcuda(?:Error|:\d)|cuDNN"
    ),
}
_TOOLS = {
    "nvcc": re.compile(
        r"\bnvcc\b|\bcudafe\+\+|\bcicc\b|\.cuh?(?:\(\d|:\d)|\.compute_\d+\.(?:ptx|cubin)"
    ),
    "hipcc": re.compile(r"\bhipcc\b|\.hip:\d|--offload-arch"),
    "inductor": re.compile(r"\b_inductor\b|\btorch\._dynamo\b|\bBackendCompilerFailed\b"),
}
_TRITON = re.compile(
    r"\btriton[/\\](?:compiler|backends|runtime|language)\b|\btriton\.(?:compiler|runtime)\b"
)
_SYSTEMS = {
    "wsl": re.compile(r"microsoft-standard-WSL|\bWSL2?\b"),
    "windows": re.compile(
        r"\b[A-Za-z]:[\\/]\w|\.(?:exe|dll|lib)\b|\bWin(?:dows|Error)\b|\bLNK\d{4}\b|\bMSVC\b|win_amd64"
        r"|\bDLL load failed\b"
    ),
}


@dataclass(frozen=True)
class LogContext:
    """The vendor, tool and system that a remedy must fit.

    `vendor` is nvidia, amd, intel or empty, `tool` is triton, nvcc, hipcc or inductor, `system` is
    linux, wsl or windows.
    """

    vendor: str = ""
    tool: str = "triton"
    system: str = "linux"


def of_log(message: str, log: str) -> LogContext:
    """Return the context of a message in a log; the message's own words come first."""
    vendor = _first(_VENDORS, message) or _first(_VENDORS, log)
    tool = _first(_TOOLS, message)
    if not tool and not _TRITON.search(log):
        tool = _first(_TOOLS, log)
    system = _first(_SYSTEMS, log)
    return LogContext(vendor, tool or "triton", system or "linux")


def of_cell(toolchain: str, target: str) -> LogContext:
    """Return the context of a compile of flacheck's own."""
    vendor, tool = "nvidia", "triton"
    if target.startswith("gfx"):
        vendor = "amd"
    if toolchain.startswith("nvcc"):
        tool = "nvcc"
    return LogContext(vendor, tool)


def _first(patterns: dict[str, re.Pattern[str]], text: str) -> str:
    for name, pattern in patterns.items():
        if pattern.search(text):
            return name
    return ""
