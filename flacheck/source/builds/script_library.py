"""Functions of Python's library that build scripts call, on the machine that a scan stands for:
Linux with an NVIDIA GPU and a CUDA toolkit, torch for CUDA, and no variables in the environment."""

import itertools
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.version import Version

from flacheck.source.builds.arguments import relative
from flacheck.source.builds.build_file import is_file, is_folder, lies_inside
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
    "torch.version.hip": None,
    "torch.utils.cpp_extension.IS_HIP_EXTENSION": False,
    "torch.utils.cpp_extension.ROCM_HOME": None,
    "torch.utils.cpp_extension.HIP_HOME": None,
    "torch.utils.cpp_extension.IS_WINDOWS": False,
    "typing.TYPE_CHECKING": False,
}
# Their values depend on the machine, but they are there and true.
PRESENT = frozenset(("CUDA_HOME", "cuda"))
# An AMD build is not what a CUDA toolkit compiles, whatever a script calls it.
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

    def call(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        """Return what a function returns.

        Raises NotWorkedOut for an unknown result, and whatever Python raises for its arguments.
        """
        function = _FUNCTIONS.get(name) or _FUNCTIONS_ANYWHERE.get(name.rpartition(".")[2])
        if function is not None:
            self._spend(sum(len(arg) for arg in args if isinstance(arg, (list, tuple, str))) // 8)
            return check_size(function(*args, **named))
        last = name.rpartition(".")[2]
        if last not in _OF_FILES:
            raise NotWorkedOut
        return getattr(self, f"_{last}")(*args, **named)

    def has(self, name: str) -> bool:
        """Return True for a function whose results can be worked out, for some arguments."""
        last = name.rpartition(".")[2]
        return name in _FUNCTIONS or last in _FUNCTIONS_ANYWHERE or last in _OF_FILES

    def path_method(self, path: str, name: str, args: list[Any]) -> Any:
        """Return what a method of a `pathlib.Path` returns."""
        if name in ("resolve", "absolute", "expanduser", "as_posix", "as_uri"):
            return path
        if name == "joinpath" and all(isinstance(arg, str) for arg in args):
            return join(path, *args)
        if name in ("exists", "is_file", "is_dir"):
            return self._exists(path, name)
        if name in ("glob", "rglob") and len(args) == 1 and isinstance(args[0], str):
            pattern = args[0]
            if name == "rglob":
                pattern = f"**/{pattern}"
            return self._glob(join(path, pattern), recursive=True)
        if name == "iterdir":
            return self._glob(join(path, "*"))
        if name == "with_suffix" and len(args) == 1 and isinstance(args[0], str):
            return str(PurePosixPath(path).with_suffix(args[0]))
        if name == "relative_to" and len(args) == 1 and isinstance(args[0], str):
            return os.path.relpath(path, args[0])
        raise NotWorkedOut

    def _in_project(self, path: Any) -> Path:
        """Return where a path of the script leads to; raise NotWorkedOut outside of the project."""
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
        """Return the project's files that a pattern matches, as the pattern writes their folder."""
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
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                yield os.path.relpath(os.path.join(folder, name), self._root)


def _as_regex(pattern: str, is_recursive: bool) -> str:
    """Return a regular expression for a pattern of file names; `*` matches within one folder."""
    translated = ""
    for part in re.split(r"(\*\*/|\*+|\?|\[[^\]]+\])", pattern):
        if part == "**/" and is_recursive:
            translated += "(?:[^/]+/)*"
        elif part == "**/":
            translated += "[^/]*/"
        elif part.startswith("*"):
            translated += "[^/]*"
        elif part == "?":
            translated += "[^/]"
        elif part.startswith("[") and part.endswith("]") and len(part) > 2:
            # A regular expression negates a set with another character.
            inner = part[1:-1].replace("\\", "").replace("[", "")
            translated += "[" + re.sub(r"^[!^]", "^", inner) + "]"
        else:
            translated += re.escape(part)
    return translated


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


def _sorted(items: Any, **named: Any) -> list[Any]:
    listed = _of_list(items)
    if not is_flat(listed) or named:
        # The order of sources changes nothing.
        return listed
    return sorted(listed)


def _dict(*args: Any, **named: Any) -> dict[Any, Any]:
    made = dict(args[0]) if args else {}
    if not all(is_scalar(key) for key in made):
        raise NotWorkedOut
    return {**made, **named}


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
    return [list(row) for row in itertools.product(*columns)]


def _chain(*args: Any) -> list[Any]:
    joined: list[Any] = []
    for arg in args:
        joined += _of_list(arg)
        check_size(joined)
    return joined


def _from_iterable(items: Any) -> list[Any]:
    return _chain(*_of_list(items))


def _sum(items: Any, start: Any = 0) -> Any:
    if isinstance(start, list):
        return [*start, *_from_iterable(items)]
    if not all(type(item) is int for item in items):
        raise NotWorkedOut
    return sum(items, start)


def _zip(*args: Any) -> list[list[Any]]:
    return [list(row) for row in zip(*map(_of_list, args))]


def _enumerate(items: Any, start: int = 0) -> list[list[Any]]:
    return [[number, item] for number, item in enumerate(_of_list(items), start)]


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
    if isinstance(value, UnknownValue) or any(isinstance(item, UnknownValue) for item in value):
        raise NotWorkedOut
    return len(value)


def _any(items: Any) -> bool:
    return any(_truth(item) for item in items)


def _all(items: Any) -> bool:
    return all(_truth(item) for item in items)


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
    "print": lambda *args, **named: None,
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
# Modules of other names offer the same.
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
