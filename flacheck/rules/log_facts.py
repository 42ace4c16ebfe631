"""Facts in a log beside its messages: versions, the GPU, the kernel and its options."""

import re
from collections.abc import Iterator
from typing import Any

from flacheck.errors import UsageError
from flacheck.tables import targets

_SEPARATOR = r"[\s:=|'\"*`,(-]{1,12}"
_RELEASE = r"v?(\d\.\d+(?:\.\d+)?)"
_VERSIONS = {
    "torch": rf"\b(?:py)?torch(?: version)?{_SEPARATOR}{_RELEASE}",
    "triton": rf"\btriton(?:-windows| version)?{_SEPARATOR}(?:\(with error\): )?{_RELEASE}",
    "cuda": (
        r"\bcuda(?: (?:version|toolkit|runtime version))?[:= ]{1,3}v?(\d\d\.\d)|\+cu(\d{3})\b"
    ),
    "driver": r"driver version[:= ]{1,3}(\d{3}\.\d+(?:\.\d+)?)",
    "python": r"\bpython(?: version)?[:= ]{1,3}v?(3\.\d+\.\d+)",
}
_VERSION_PATTERNS = {name: re.compile(rf"(?i){pattern}") for name, pattern in _VERSIONS.items()}
# What a package requires is not what is installed.
_REQUIREMENT = re.compile(
    r"(?:requires?|depends? on|has requirement|requested|requirement)[ `'\"]{1,3}"
    r"(?:pytorch-)?(?:torch|triton)[^\n;,]{0,60}"
)
_CARD = r"(?:GeForce |Instinct |Radeon |Tesla )?[A-Z]{1,4}[ -]?\d{2,4}[\w-]*(?: Ti)?"
# The order is that of trust: the compiler's own words, its command line, the driver's name.
_TARGETS = (
    re.compile(
        r"[Uu]n(?:known|supported) (?:GPU |target )?arch(?:itecture)?:? '?"
        r"(gfx\d{3,4}\w?|sm_\d{2,3}\w?)"
    ),
    re.compile(r'ttg?\.target = "?(?:cuda|hip):(\w+)|target=(?:cuda|hip):(\w+)'),
    re.compile(r"--gpu-name=(sm_\w+)|\.compute_(\d{2,3}[af]?)\.ptx|\b(gfx\d{3,4}\w?)\b"),
    re.compile(rf"\b(?:NVIDIA|AMD) ({_CARD})"),
    # What an instruction requires is another GPU than the one that is compiled for.
    re.compile(r"(?<!requires \.target )(?<!requires )\b(sm_?\d{2,3}[af]?)\b"),
)
_GPU = re.compile(rf"\b((?:NVIDIA|AMD) {_CARD})")
_OPTIONS = {
    "num_warps": re.compile(r"num[-_]warps[\"']?\s?[:=]\s?(\d+)"),
    "num_stages": re.compile(r"num[-_]stages[\"']?\s?[:=]\s?(\d+)"),
}
# The kernel of a module dump, of a front-end error, of an autotuner's line, of a launch's frame.
_KERNELS = (
    re.compile(r"tt\.func public @(\w+)\("),
    re.compile(r"(?:CompilationError|Failure|Construct): at \d+:\d+:[^\n]*\n\s*def (\w+)\("),
    re.compile(r"\b(\w+) with config BV?\b|Autotuning kernel (\w+) with"),
    re.compile(r"^\s*(\w+)\[[^\]\n]{1,80}\]\($", re.MULTILINE),
)
# Modules of packages that flacheck can scan, with their distributions.
_PACKAGES = {
    "fla": ("flash-linear-attention", "fla-core"),
    "liger_kernel": ("liger-kernel",),
    "mamba_ssm": ("mamba-ssm",),
    "mlstm_kernels": ("mlstm-kernels",),
    "xformers": ("xformers",),
    "cut_cross_entropy": ("cut-cross-entropy",),
}
# The user's program where a traceback begins: not a file of a package, notebook or build.
_SCRIPT = re.compile(
    r"Traceback \(most recent call last\):[^\n]{0,20}\n[^\n]{0,200}?"
    r'File "(?P<script>(?:(?!(?:site|dist)-packages|[/\\]tmp[/\\]|setup\.py)[^"<>\n]){1,300}\.py)"'
    r", line \d+, in <module>"
)
_MODULE = re.compile(r"(?:site|dist)-packages[/\\](\w+)[/\\]")


def of_log(log: str) -> dict[str, Any]:
    """Return the facts that a log has, by name: `torch`, `triton`, `target`, `kernel` and more."""
    facts: dict[str, Any] = {}
    installed = _REQUIREMENT.sub("", log)
    for name, pattern in _VERSION_PATTERNS.items():
        match = pattern.search(installed)
        if match:
            facts[name] = _version(match)
    gpu = _GPU.search(log)
    if gpu:
        facts["gpu"] = gpu[1]
    for target in _targets(log):
        facts["target"] = target
        break
    for name, pattern in _OPTIONS.items():
        match = pattern.search(log)
        if match:
            facts[name] = int(match[1])
    for pattern in _KERNELS:
        match = pattern.search(log)
        if match:
            facts["kernel"] = next(filter(None, match.groups()))
            break
    script = _SCRIPT.search(log)
    if script:
        facts["script"] = script["script"]
    package = _package(log)
    if package:
        facts["package"] = package
    return facts


def _version(match: re.Match[str]) -> str:
    text: str = next(filter(None, match.groups()))
    if text.isdigit():
        # `+cu128` is CUDA 12.8.
        return f"{text[:2]}.{text[2:]}"
    return text


def _targets(log: str) -> Iterator[str]:
    """Yield the targets that a log names, the most trusted first."""
    for pattern in _TARGETS:
        for match in pattern.finditer(log):
            name = next(filter(None, match.groups()))
            if name[0].isdigit():
                name = f"sm_{name}"
            try:
                yield targets.find(name).name
            except UsageError:
                if pattern is _TARGETS[0]:
                    yield name


def _package(log: str) -> str | None:
    """Return `NAME==VERSION` of a package whose frames and version the log shows."""
    for module in dict.fromkeys(_MODULE.findall(log)):
        for name in _PACKAGES.get(module, ()):
            pattern = rf"(?i)\b{name.replace('-', '[-_]')}{_SEPARATOR}v?(\d+\.\d+(?:\.\d+)*)"
            match = re.search(pattern, log)
            if match:
                return f"{name}=={match[1]}"
    return None
