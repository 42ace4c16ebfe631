"""A compiler's arguments, taken apart: defines, include folders, the standard, and of all others
those that change what is compiled and can do no harm.

Which GPU, which host compiler, how many threads and where the output goes is flacheck's own affair.
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
# Only what is known to be harmless: a flag may name a plug-in, a program or a file to write.
_KEPT = re.compile(
    r"-O[0-3]?|-g|-G|-w|-lineinfo|--generate-line-info|-{1,2}use_fast_math|-{1,2}extended-lambda"
    r"|-{1,2}expt-(?:relaxed-constexpr|extended-lambda)|-U\w+"
    r"|-{1,2}(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|-{1,2}maxrregcount=\d+"
    r"|-(?:rdc|-relocatable-device-code)=(?:true|false)|-{1,2}diag-suppress=[\d,]+"
    r"|-Xcudafe=--diag_suppress=\w+"
    r"|(?:-Xptxas|--ptxas-options)=(?:-v|-O\d|-dlcm=\w+|--warn-on-\w[\w-]*|-w"
    r"|-{1,2}allow-expensive-optimizations=(?:true|false))"
    r"|(?:-Xcompiler|--compiler-options)=(?:-O\d|-g|-pthread|-W[\w-]+"
    # Each by its name: others load plug-ins or write files.
    r"|-f(?:no-)?(?:PIC|pic|PIE|openmp|permissive|wrapv|exceptions|rtti|strict-aliasing"
    r"|unroll-loops|fast-math|finite-math-only|math-errno|trapping-math|omit-frame-pointer"
    r"|function-sections|data-sections|gnu-unique|visibility-inlines-hidden|inline-functions"
    r"|stack-protector|stack-protector-strong|stack-protector-all|semantic-interposition|plt|lto"
    r"|concepts|coroutines|char8_t|asynchronous-unwind-tables|tree-vectorize)"
    r"|-f(?:visibility|cf-protection|abi-version|template-depth|constexpr-depth)=\w+)"
)
# What flacheck chooses itself: the GPU, the threads, where the output goes, the host compiler.
_CHOSEN_BY_SCAN = re.compile(
    r"-(?:-generate-code|gencode|-?gpu-architecture|-?gpu-code|arch|code|-gpu|o|-output-file|c|v|t|j"
    r"|-threads|-jobs|x|M\w*|ccbin|-compiler-bindir)(?![\w-])"
)
# Names that a compiler, or the shell command of one, would read as an option or a list of options.
_READ_AS_OPTION = ("-", "@")


def is_chosen_by_scan(argument: str) -> bool:
    """Return True for an argument whose value a scan chooses, whatever a build has."""
    return _CHOSEN_BY_SCAN.match(argument) is not None


def is_read_as_option(name: str) -> bool:
    """Return True for the name of a file or folder that a compiler would take for an option."""
    return name.startswith(_READ_AS_OPTION)


def printable(text: str) -> str:
    """Return the text with its lone surrogates, which no output can hold, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_passable(text: str) -> bool:
    """Return True for a text that a command line can hold: no null byte, no lone surrogate."""
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

    @property
    def is_device_code(self) -> bool:
        return self.file.endswith(".cu")


@dataclass(frozen=True)
class BuildUnits:
    """What a build file compiles, and remarks on what could not be read from it."""

    units: tuple[BuildUnit, ...] = ()
    warnings: tuple[str, ...] = ()


def parse(arguments: Sequence[str], folder: Path, root: Path) -> BuildUnit | None:
    """The unit that a command line compiles, run in a folder of a project; None for one that
    compiles no C++ file of the project."""
    unit = split_arguments(arguments, folder, root)
    sources = [word for word in arguments if word.endswith(SUFFIXES) and not word.startswith("-")]
    if not sources:
        return None
    file = relative(sources[-1], folder, root)
    if file.startswith(("/", "..")):
        return None
    of_torch = any("torch/include" in include for include in unit.includes)
    return replace(unit, file=file, of_torch=of_torch)


def split_arguments(arguments: Sequence[str], folder: Path, root: Path) -> BuildUnit:
    """What arguments ask for, without a file."""
    defines: dict[str, str | int | bool] = {}
    flags: list[str] = []
    includes: list[str] = []
    dropped_flags: list[str] = []
    standard = None
    for name, held in _pairs(arguments):
        if not _is_passable(name + held):
            dropped_flags.append(printable(f"{name}={held}"))
        elif name in ("-I", "-isystem", "--include-path", "--system-include"):
            include = relative(held, folder, root)
            if is_read_as_option(include):
                dropped_flags.append(f"{name}={held}")
            else:
                includes.append(include)
        elif name in ("-D", "--define-macro"):
            macro, is_valued, text = held.partition("=")
            defines[macro] = macro_value(text) if is_valued else True
        elif name in ("-std", "--std"):
            standard = held.replace("gnu++", "c++")
        elif name in ("-U", "--undefine-macro") and _MACRO.fullmatch(held):
            flags.append(f"-U{held}")
        else:
            flag = f"{name}={held}" if held else name
            if _KEPT.fullmatch(flag):
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
    """Each argument with its value, however the two are written."""
    pairs = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        joined = re.fullmatch(r"(-I|-isystem|-D|-U)(.+)", word, re.DOTALL)
        if joined:
            pairs.append((joined[1], joined[2]))
        elif word in TAKES_VALUE and waiting:
            pairs.append((word, waiting.pop()))
        elif word.startswith("-"):
            name, _, held = word.partition("=")
            pairs.append((name, held))
    return pairs


def macro_value(text: str) -> str | int:
    """What a macro is defined as: a number where it is one, so that 64 is 64 however it came."""
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    return text


def relative(path: str, folder: Path, root: Path) -> str:
    """A path as seen from the project; one outside of it stays absolute."""
    whole = os.path.normpath(os.path.join(folder, path))
    if whole == str(root):
        return "."
    if whole.startswith(str(root) + os.sep):
        return os.path.relpath(whole, root)
    return whole
