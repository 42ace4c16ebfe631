"""A compiler's arguments: defines, include folders, the standard, and harmless other flags.

flacheck itself chooses the GPU, the host compiler, the number of threads and the output.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
_MACRO = re.compile(r"[A-Za-z_]\w*")
# Arguments whose value may be the next one.
TAKES_VALUE = frozenset(
    """-I -isystem --system-include --include-path -D --define-macro -U --undefine-macro -std --std
    -o --output-file -x --x -ccbin --compiler-bindir -gencode --generate-code -arch
    --gpu-architecture -code --gpu-code -t --threads -j --threads -Xcompiler --compiler-options
    -Xptxas --ptxas-options -Xcudafe -diag-suppress --diag-suppress -maxrregcount --maxrregcount
    -MF -MT -MQ -L -l -Xlinker --dependency-output -include --pre-include -rdc
    --relocatable-device-code -isysroot -lineinfo-path""".split()
)
# Only harmless flags are passed on: others may name a plug-in, a program or a file to write.
_HARMLESS = re.compile(
    r"-O[0-3]?|-g|-G|-w|-lineinfo|--generate-line-info|-{1,2}use_fast_math|-{1,2}extended-lambda"
    r"|-{1,2}expt-(?:relaxed-constexpr|extended-lambda)|-U\w+"
    r"|-{1,2}(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|-{1,2}maxrregcount=\d+"
    r"|-(?:rdc|-relocatable-device-code)=(?:true|false)|-{1,2}diag-suppress=[\d,]+"
    r"|-Xcudafe=--diag_suppress=\w+"
    r"|(?:-Xptxas|--ptxas-options)=(?:-v|-O\d|-dlcm=\w+|--warn-on-\w[\w-]*|-w"
    r"|-{1,2}allow-expensive-optimizations=(?:true|false))"
    r"|(?:-Xcompiler|--compiler-options)=(?:-O\d|-g|-pthread|-W[\w-]+"
    # The others load plug-ins or write files.
    r"|-f(?:no-)?(?:PIC|pic|PIE|openmp|permissive|wrapv|exceptions|rtti|strict-aliasing"
    r"|unroll-loops|fast-math|finite-math-only|math-errno|trapping-math|omit-frame-pointer"
    r"|function-sections|data-sections|gnu-unique|visibility-inlines-hidden|inline-functions"
    r"|stack-protector|stack-protector-strong|stack-protector-all|semantic-interposition|plt|lto"
    r"|concepts|coroutines|char8_t|asynchronous-unwind-tables|tree-vectorize)"
    r"|-f(?:visibility|cf-protection|abi-version|template-depth|constexpr-depth)=\w+)"
)
# Flags for the GPU, the threads, the output and the host compiler, which flacheck chooses itself.
_CHOSEN_BY_SCAN = re.compile(
    r"-(?:-generate-code|gencode|-?gpu-architecture|-?gpu-code|arch|code|-gpu|o|-output-file|c|v|t|j"
    r"|-threads|-jobs|x|M\w*|ccbin|-compiler-bindir)(?![\w-])"
)
# A compiler, or its shell command, reads names that begin like this as options.
_READ_AS_OPTION = ("-", "@")


def is_chosen_by_scan(argument: str) -> bool:
    """Return True for an argument whose value a scan chooses in place of the build."""
    return _CHOSEN_BY_SCAN.match(argument) is not None


def is_read_as_option(name: str) -> bool:
    """Return True for the name of a file or folder that a compiler would take for an option."""
    return name.startswith(_READ_AS_OPTION)


def printable(text: str) -> str:
    """Return the text with its lone surrogates escaped, because output cannot contain them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_passable(text: str) -> bool:
    """Return True for a text without null bytes and lone surrogates: it fits a command line."""
    return "\0" not in text and printable(text) == text


@dataclass(frozen=True)
class BuildUnit:
    """A translation unit of a build.

    `file` is relative to the project; `includes` are too if they lie in it. `standard` is None if
    the build names none. `dropped_flags` are arguments that flacheck does not pass on. `of_torch`
    is True for a unit built against torch's headers.
    """

    file: str
    defines: Mapping[str, str | int | bool] = field(default_factory=dict, hash=False)
    flags: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    standard: str | None = None
    dropped_flags: tuple[str, ...] = ()
    of_torch: bool = False


@dataclass(frozen=True)
class BuildUnits:
    """The units of a build file, and warnings about the parts that could not be read."""

    units: tuple[BuildUnit, ...] = ()
    warnings: tuple[str, ...] = ()


def parse(arguments: Sequence[str], folder: Path, root: Path) -> BuildUnit | None:
    """Return the unit that a command line compiles when run in a folder of a project.

    None if the command line does not compile a C++ file of the project.
    """
    unit = split_arguments(arguments, folder, root)
    source = ""
    for word in arguments:
        if word.endswith(SUFFIXES) and not word.startswith("-"):
            source = word
    if not source:
        return None
    file = relative(source, folder, root)
    if file.startswith(("/", "..")):
        return None
    of_torch = any("torch/include" in include for include in unit.includes)
    return replace(unit, file=file, of_torch=of_torch)


def split_arguments(arguments: Sequence[str], folder: Path, root: Path) -> BuildUnit:
    """Return the unit of some arguments, without a file."""
    defines: dict[str, str | int | bool] = {}
    flags: list[str] = []
    includes: list[str] = []
    dropped_flags: list[str] = []
    standard = None
    for name, text in _pairs(arguments):
        if not _is_passable(name + text):
            dropped_flags.append(printable(f"{name}={text}"))
        elif name in ("-I", "-isystem", "--include-path", "--system-include"):
            include = relative(text, folder, root)
            if is_read_as_option(include):
                dropped_flags.append(f"{name}={text}")
            else:
                includes.append(include)
        elif name in ("-D", "--define-macro"):
            macro, equals, definition = text.partition("=")
            defines[macro] = macro_value(definition) if equals else True
        elif name in ("-std", "--std"):
            standard = text.replace("gnu++", "c++")
        elif name in ("-U", "--undefine-macro") and _MACRO.fullmatch(text):
            flags.append(f"-U{text}")
        else:
            flag = f"{name}={text}" if text else name
            if _HARMLESS.fullmatch(flag):
                flags.append(flag)
            else:
                dropped_flags.append(flag)
    return BuildUnit(
        "",
        defines,
        tuple(dict.fromkeys(flags)),
        tuple(dict.fromkeys(includes)),
        standard,
        tuple(dict.fromkeys(dropped_flags)),
    )


def _pairs(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return each argument with its value, in whatever way the two are written."""
    pairs = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        together = re.fullmatch(r"(-I|-isystem|-D|-U)(.+)", word, re.DOTALL)
        if together:
            name, text = together.groups()
            if name in ("-I", "-isystem"):
                # nvcc takes `-isystem=DIR` too, the form that CMake writes.
                text = text.removeprefix("=")
            pairs.append((name, text))
        elif word in TAKES_VALUE and waiting:
            pairs.append((word, waiting.pop()))
        elif word.startswith("-"):
            name, _, text = word.partition("=")
            pairs.append((name, text))
    return pairs


def macro_value(text: str) -> str | int:
    """Return a macro's value, a number for digits, so that 64 is 64 in every build file."""
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    return text


def relative(path: str, folder: Path, root: Path) -> str:
    """Return a path relative to the project; a path outside of it stays absolute."""
    whole = os.path.normpath(os.path.join(folder, path))
    if whole == str(root):
        return "."
    if whole.startswith(str(root) + os.sep):
        return os.path.relpath(whole, root)
    return whole
