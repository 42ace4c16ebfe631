"""Functions of Python's library that build scripts call, as on the machine of a scan.

The machine has Linux, an NVIDIA GPU, a CUDA toolkit, torch for CUDA and an empty environment.
"""

import itertools
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.version import Version

from flacheck.files import lies_inside
from flacheck.source.builds.arguments import relative
from flacheck.source.builds.build_file import is_file, is_folder
from flacheck.source.builds.script_values import (
    MOST_ITEMS,
    NotWorkedOut,
    TooLarge,
    UnknownValue,
    check_size,
    is_flat,
    is_scalar,
    join,
)

CONSTANTS: dict[str, Any] = {
    "__name__": "__main__",
    "os.name": "posix",
    "os.sep": "/",
    "os.path.sep": "/",
    "os.curdir": ".",
    "sys.platform": "linux",
    "sys.argv": [],
    # True for the wheels of torch since 2.7.
    "torch._C._GLIBCXX_USE_CXX11_ABI": True,
    "torch.version.hip": None,
    "torch.utils.cpp_extension.IS_HIP_EXTENSION": False,
    "torch.utils.cpp_extension.ROCM_HOME": None,
    "torch.utils.cpp_extension.HIP_HOME": None,
    "torch.utils.cpp_extension.IS_WINDOWS": False,
    "typing.TYPE_CHECKING": False,
}
# The values of these names depend on the machine, but are always true.
PRESENT = frozenset(("CUDA_HOME", "cuda"))
# Names of an AMD build, which a CUDA toolkit does not compile.
OF_AMD = re.compile(r"(?<![a-z])(?:hip|rocm)", re.IGNORECASE)
_MOST_FILES = 50_000
# A pattern with many stars takes polynomial time of that degree.
_MOST_STARS = 6


class Library:
    """The library's functions, for a project in a folder."""

    def __init__(self, root: Path, spend: Callable[[int], None]) -> None:
        self._root = root
        self._spend = spend
        self._files: list[str] | None = None

    def call(self, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        """Call a function and return its result.

        Raises NotWorkedOut for an unknown result, and Python's errors for its arguments.
        """
        function = _FUNCTIONS.get(name) or _FUNCTIONS_ANYWHERE.get(name.rpartition(".")[2])
        if function is not None:
            length = 0
            for arg in args:
                if isinstance(arg, (list, tuple, str)):
                    length += len(arg)
            self._spend(length // 8)
            return check_size(function(*args, **keywords))
        last = name.rpartition(".")[2]
        if last not in _OF_FILES:
            raise NotWorkedOut
        return getattr(self, f"_{last}")(*args, **keywords)

    def has(self, name: str) -> bool:
        """Return True for a function whose results are known for some arguments."""
        last = name.rpartition(".")[2]
        return name in _FUNCTIONS or last in _FUNCTIONS_ANYWHERE or last in _OF_FILES

    def path_method(self, path: str, name: str, args: list[Any]) -> Any:
        """Call a method of a `pathlib.Path` and return its result."""
        if name in ("resolve", "absolute", "expanduser", "as_posix", "as_uri"):
            return path
        if name in ("exists", "is_file", "is_dir"):
            return self._exists(path, name)
        if name == "iterdir":
            return self._glob(join(path, "*"))
        match name, args:
            case "joinpath", _ if all(isinstance(arg, str) for arg in args):
                return join(path, *args)
            case "glob", [str() as pattern]:
                return self._glob(join(path, pattern), recursive=True)
            case "rglob", [str() as pattern]:
                return self._glob(join(path, f"**/{pattern}"), recursive=True)
            case "with_suffix", [str() as suffix]:
                return str(PurePosixPath(path).with_suffix(suffix))
            case "relative_to", [str() as start]:
                return os.path.relpath(path, start)
        raise NotWorkedOut

    def _in_project(self, path: Any) -> Path:
        """Return the place of a script's path; raise NotWorkedOut outside of the project."""
        if not isinstance(path, str):
            raise NotWorkedOut
        place = self._root / path
        if not lies_inside(place, self._root):
            raise NotWorkedOut
        return place

    def _exists(self, path: Any, name: str = "exists") -> bool:
        place = self._in_project(path)
        if name == "exists":
            return is_file(place) or is_folder(place)
        if name == "is_file":
            return is_file(place)
        return is_folder(place)

    def _isfile(self, path: Any) -> bool:
        return self._exists(path, "is_file")

    def _isdir(self, path: Any) -> bool:
        return self._exists(path, "is_dir")

    def _getcwd(self) -> str:
        return str(self._root)

    _cwd = _getcwd

    def _abspath(self, path: Any) -> str:
        if not isinstance(path, str):
            raise NotWorkedOut
        return os.path.normpath(join(str(self._root), path))

    _realpath = _abspath

    def _relpath(self, path: Any, start: Any = ".") -> str:
        return os.path.relpath(self._abspath(path), self._abspath(start))

    def _listdir(self, path: Any = ".") -> list[str]:
        return [name.rpartition("/")[2] for name in self._glob(join(path, "*"))]

    def _glob(self, pattern: Any, recursive: Any = False, root_dir: Any = None) -> list[str]:
        """Return the project's files that match a pattern: absolute if the pattern is."""
        if not isinstance(pattern, str) or root_dir is not None:
            raise NotWorkedOut
        whole = relative(pattern, self._root, self._root)
        if whole.startswith(("/", "..")) or whole.count("*") > _MOST_STARS:
            raise NotWorkedOut
        matches = re.compile(_as_regex(whole, bool(recursive))).fullmatch
        files = self._all_files()
        self._spend(len(files) // 8)
        names = [name for name in files if matches(name)]
        if pattern.startswith("/"):
            names = [f"{self._root}/{name}" for name in names]
        return names

    _iglob = _glob

    def _all_files(self) -> list[str]:
        if self._files is None:
            self._files = sorted(itertools.islice(self._walk(), _MOST_FILES))
        return self._files

    def _walk(self) -> Any:
        for folder, folders, names in os.walk(self._root):
            visible = [name for name in folders if not name.startswith(".")]
            # `os.walk` descends into the folders that stay in its list.
            folders[:] = sorted(visible)
            for name in sorted(names):
                yield os.path.relpath(os.path.join(folder, name), self._root)


def _as_regex(pattern: str, is_recursive: bool) -> str:
    """Return a regular expression for a pattern of file names; `*` matches within one folder."""
    regex = ""
    for part in re.split(r"(\*\*/|\*+|\?|\[[^\]]+\])", pattern):
        if part == "**/" and is_recursive:
            regex += "(?:[^/]+/)*"
        elif part == "**/":
            regex += "[^/]*/"
        elif part.startswith("*"):
            regex += "[^/]*"
        elif part == "?":
            regex += "[^/]"
        elif part.startswith("[") and part.endswith("]") and len(part) > 2:
            # A regular expression negates a set with another character.
            inner = part[1:-1].replace("\\", "").replace("[", "")
            regex += "[" + re.sub(r"^[!^]", "^", inner) + "]"
        else:
            regex += re.escape(part)
    return regex


def _of_list(*args: Any) -> list[Any]:
    if not args:
        return []
    (items,) = args
    if isinstance(items, dict):
        return list(items)
    if isinstance(items, (list, tuple, str)):
        return list(items)
    raise NotWorkedOut


def _set(*args: Any) -> list[Any]:
    items = _of_list(*args)
    if not is_flat(items):
        raise NotWorkedOut
    return list(dict.fromkeys(items))


def _sorted(items: Any, **keywords: Any) -> list[Any]:
    values = _of_list(items)
    if not is_flat(values) or keywords:
        # The order of sources does not change what is compiled.
        return values
    return sorted(values)


def _dict(*args: Any, **keywords: Any) -> dict[Any, Any]:
    mapping = dict(args[0]) if args else {}
    if not all(map(is_scalar, mapping)):
        raise NotWorkedOut
    return {**mapping, **keywords}


def _range(*args: Any) -> list[int]:
    numbers = range(*args)
    if len(numbers) > MOST_ITEMS:
        raise TooLarge
    return list(numbers)


def _product(*args: Any, repeat: int = 1) -> list[list[Any]]:
    columns = [_of_list(arg) for arg in args] * repeat
    count = 1
    for column in columns:
        count *= len(column)
        if count > MOST_ITEMS or len(columns) > 20:
            raise TooLarge
    return list(map(list, itertools.product(*columns)))


def _chain(*args: Any) -> list[Any]:
    chain: list[Any] = []
    for arg in args:
        chain += _of_list(arg)
        check_size(chain)
    return chain


def _from_iterable(items: Any) -> list[Any]:
    return _chain(*_of_list(items))


def _sum(items: Any, start: Any = 0) -> Any:
    if isinstance(start, list):
        return [*start, *_from_iterable(items)]
    if not all(type(item) is int for item in items):
        raise NotWorkedOut
    return sum(items, start)


def _zip(*args: Any) -> list[list[Any]]:
    columns = map(_of_list, args)
    return list(map(list, zip(*columns)))


def _enumerate(items: Any, start: int = 0) -> list[list[Any]]:
    pairs = enumerate(_of_list(items), start)
    return list(map(list, pairs))


def _text(value: Any = "") -> str:
    if not is_scalar(value):
        raise NotWorkedOut
    return str(value)


def _int(value: Any = 0) -> int:
    # Thousands of digits take quadratic time.
    if not is_scalar(value) or len(str(value)) > 20:
        raise NotWorkedOut
    return int(value)


def _truth(value: Any = False) -> bool:
    if isinstance(value, UnknownValue):
        raise NotWorkedOut
    return bool(value)


def _len(value: Any) -> int:
    if isinstance(value, UnknownValue):
        raise NotWorkedOut
    for item in value:
        if isinstance(item, UnknownValue):
            raise NotWorkedOut
    return len(value)


def _any(items: Any) -> bool:
    return any(map(_truth, items))


def _all(items: Any) -> bool:
    return all(map(_truth, items))


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        values = args[0] if len(args) == 1 else args
        if not is_flat(values):
            raise NotWorkedOut
        return choose(values)

    return call


def _path(*args: Any) -> str:
    return join(*map(_text, args))


def _splitext(path: str) -> tuple[str, str]:
    stem, dot, suffix = path.rpartition(".")
    if not stem or stem.endswith("/") or "/" in suffix:
        return path, ""
    return stem, dot + suffix


def _shlex_split(text: str) -> list[str]:
    return shlex.split(text)


def _version(text: str) -> Version:
    return Version(text)


def _of_machine(value: str) -> Callable[[], str]:
    return lambda: value


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "list": _of_list,
    "tuple": _of_list,
    "set": _set,
    "frozenset": _set,
    "sorted": _sorted,
    "reversed": lambda items: _of_list(items)[::-1],
    "dict": _dict,
    "range": _range,
    "sum": _sum,
    "zip": _zip,
    "enumerate": _enumerate,
    "str": _text,
    "int": _int,
    "bool": _truth,
    "len": _len,
    "any": _any,
    "all": _all,
    "min": _extreme(min),
    "max": _extreme(max),
    "print": lambda *args, **keywords: None,
    "os.fspath": _text,
    "os.path.join": _path,
    "os.path.normpath": os.path.normpath,
    "os.path.dirname": os.path.dirname,
    "os.path.basename": os.path.basename,
    "os.path.splitext": _splitext,
    "os.path.expanduser": _text,
    "shlex.split": _shlex_split,
    "platform.system": _of_machine("Linux"),
    "platform.machine": _of_machine("x86_64"),
    "torch.cuda.is_available": lambda: True,
    "torch.__config__.parallel_info": _of_machine("ATen parallel backend: OpenMP"),
    "itertools.product": _product,
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _from_iterable,
}
# Several modules have these functions.
_FUNCTIONS_ANYWHERE: dict[str, Callable[..., Any]] = {
    "Path": _path,
    "PurePath": _path,
    "PosixPath": _path,
    "Version": _version,
    "LooseVersion": _version,
    "StrictVersion": _version,
    "parse_version": _version,
}
_FUNCTIONS["packaging.version.parse"] = _version
_OF_FILES: Sequence[str] = (
    *("exists", "isfile", "isdir", "getcwd", "cwd", "abspath", "realpath", "listdir"),
    *("glob", "iglob", "relpath"),
)
