"""Run a project's `setup.py` in the sandbox and record its extensions; nothing is compiled.

setuptools and torch are stand-ins with the values of a machine with an NVIDIA GPU and a toolkit, so
the project needs none of its build requirements. A class of the script that builds extensions runs
too, and the options with which it starts CMake are recorded.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import shutil
import subprocess
import sys
import traceback
import types
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from .channel import read_config

# Modules that are stand-ins even where they are installed.
_STAND_INS = frozenset(("distutils", "pkg_resources", "setuptools", "torch", "wheel"))
_LISTS = ("include_dirs", "sources", "undef_macros")


class Anything(str):
    """A value that a stand-in does not have: empty text that can be called and subclassed."""

    def __new__(cls, *_: object, **__: object) -> Anything:
        return str.__new__(cls)

    def __call__(self, *_: object, **__: object) -> Anything:
        return self

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return (Command,)


class Command:
    """The base of a script's build commands, which build nothing."""

    extensions: Sequence[Any] = ()
    build_lib = build_temp = ""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    @classmethod
    def with_options(cls, **_: object) -> type[Command]:
        """Return the command; its options change only how it builds."""
        return cls

    def initialize_options(self) -> None:
        """Do nothing: subclasses call it."""

    finalize_options = initialize_options

    def get_ext_filename(self, name: str) -> str:
        """Return the file that an extension would be built as."""
        return f"{name.replace('.', '/')}.so"

    def get_ext_fullpath(self, name: str) -> str:
        """Return that file in the folder of the build."""
        return os.path.abspath(os.path.join(self.build_lib, self.get_ext_filename(name)))

    def run(self) -> None:
        """Build each extension, which does nothing unless the script's class does."""
        for extension in self.extensions:
            self.build_extension(extension)

    def build_extension(self, extension: Any) -> None:
        """Do nothing in place of a build."""


class Extension:
    """The arguments of an extension; torch's have `of_torch`."""

    of_torch = False
    made: ClassVar[list[Extension]] = []

    def __init__(self, name: str = "", sources: Iterable[Any] = (), *_: Any, **more: Any) -> None:
        self.__dict__.update(more, name=name, sources=sources)
        Extension.made.append(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # Scripts append to the lists of an extension.
        return self.__dict__.setdefault(name, [])

    def to_json(self) -> dict[str, Any]:
        """Return the arguments that decide what is compiled."""
        flags = self.extra_compile_args
        if not isinstance(flags, Mapping):
            flags = {"nvcc": flags, "cxx": flags}
        return {
            "name": str(self.name),
            "of_torch": self.of_torch,
            "nvcc": _texts(flags.get("nvcc")),
            "cxx": _texts(flags.get("cxx")),
            "define_macros": list(_macros(self.define_macros)),
            **{name: _texts(getattr(self, name)) for name in _LISTS},
        }


class TorchExtension(Extension):
    """An extension that is compiled against torch's headers."""

    of_torch = True


def _items(values: Any) -> list[Any]:
    """Return the items of an argument, which may be of any kind."""
    if isinstance(values, (str, os.PathLike)):
        return [values]
    return list(values) if isinstance(values, Iterable) else []


def _texts(values: Any) -> list[str]:
    paths = filter(lambda value: isinstance(value, (str, os.PathLike)), _items(values))
    return [os.fspath(path) for path in paths]


def _macros(pairs: Any) -> Iterator[str]:
    """Yield `NAME` or `NAME=VALUE` for each pair of a name and a value or None."""
    for pair in filter(_items, _items(pairs)):
        name, value = (*_items(pair), None)[:2]
        yield str(name) if value is None else f"{name}={value}"


class _StandIn(types.ModuleType):
    """A module with some values; every other attribute is Anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the modules below some packages."""

    def __init__(self, packages: Container[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in self._packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Preparation(ast.NodeTransformer):
    """Drops the errors that a script raises, and lists the packages that it imports.

    A missing folder or toolkit would end it otherwise. A statement in a `try` stays as it is,
    because a handler may expect its error.
    """

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def visit_Try(self, node: ast.Try) -> ast.Try:
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_Import(self, node: ast.Import) -> ast.Import:
        self.packages.update(alias.name.partition(".")[0] for alias in node.names)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        self.packages.add(str(node.module).partition(".")[0])
        return node


class _Recording:
    """A run of a script, with the extensions and the options of CMake that it has made so far."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._file = os.path.join(config["root"], "setup.py")
        self._distribution: Mapping[str, Any] = {"ext_modules": Extension.made}
        self._options: list[str] = []
        self._error, self._line = "", 0

    def run(self) -> None:
        """Run the script up to its end or its first error."""
        for name, values in self._modules().items():
            module = importlib.import_module(name)
            module.__dict__.update(values)
        main = types.ModuleType("__main__")
        main.__file__ = self._file
        sys.modules["__main__"] = main
        sys.addaudithook(self._note_program)
        try:
            preparation = _Preparation()
            tree = preparation.visit(ast.parse(self._config["text"]))
            sys.meta_path.append(_Finder(preparation.packages))
            # Without assertions, which are guards, too.
            code = compile(tree, self._file, "exec", dont_inherit=True, optimize=1)
            exec(code, main.__dict__)
        # The script is a stranger's: whatever ends it, its extensions so far are written.
        except BaseException as error:
            self._error = f"{type(error).__name__}: {error}"
            for frame, line in traceback.walk_tb(error.__traceback__):
                if frame.f_code.co_filename == self._file:
                    self._line = line

    def answer(self) -> dict[str, Any]:
        """Return the recorded values for the host."""
        common = _texts(self._distribution.get("include_dirs"))
        extensions = []
        for extension in _items(self._distribution.get("ext_modules")):
            if isinstance(extension, Extension):
                plain = extension.to_json()
                plain["include_dirs"] += common
                extensions.append(plain)
        return {
            "extensions": extensions,
            "options": self._options,
            "error": self._error,
            "line": self._line,
        }

    def _setup(self, **distribution: Any) -> None:
        """Take the place of setuptools' `setup`."""
        self._distribution = distribution
        command = (distribution.get("cmdclass") or {}).get("build_ext")
        if isinstance(command, type) and issubclass(command, Command):
            build = command()
            build.extensions = _items(distribution.get("ext_modules"))
            build.initialize_options()
            build.finalize_options()
            build.run()

    def _note_program(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and isinstance(arguments[1], (list, tuple)):
            words = _texts(arguments[1])
            if words and os.path.basename(words[0]) == "cmake":
                self._options += [word for word in words if word.startswith("-D")]

    def _modules(self) -> dict[str, dict[str, Any]]:
        """Return the values of the stand-ins: those that decide what a script compiles."""
        major, minor = self._config["capability"]
        gpu = types.SimpleNamespace(major=major, minor=minor, name="NVIDIA")
        version = importlib.import_module("packaging.version")
        classes = {"Extension": Extension, "setup": self._setup}
        setuptools = {
            **classes,
            "Command": Command,
            "Distribution": Command,
            "find_namespace_packages": _no_packages,
            "find_packages": _no_packages,
        }
        return {
            "setuptools": setuptools,
            "setuptools.command.build_ext": {"build_ext": Command},
            "distutils.core": classes,
            "distutils.command.build_ext": {"build_ext": Command},
            "distutils.spawn": {"find_executable": shutil.which},
            "distutils.version": {
                "LooseVersion": version.Version,
                "StrictVersion": version.Version,
            },
            "pkg_resources": {"parse_version": version.parse},
            "torch": {
                "__path__": [self._config["torch_folder"]],
                "__version__": self._config["torch"],
                "compiled_with_cxx11_abi": lambda: True,
            },
            "torch._C": {"_GLIBCXX_USE_CXX11_ABI": True},
            "torch.__config__": {"parallel_info": lambda: "ATen parallel backend: OpenMP"},
            "torch.version": {"cuda": self._config["cuda"], "hip": None},
            "torch.cuda": {
                "current_device": lambda: 0,
                "device_count": lambda: 1,
                "get_device_capability": lambda *_: (major, minor),
                "get_device_properties": lambda *_: gpu,
                "is_available": lambda: True,
            },
            "torch.utils.cpp_extension": {
                "BuildExtension": Command,
                "CUDAExtension": TorchExtension,
                "CUDA_HOME": os.environ["CUDA_HOME"],
                "CppExtension": TorchExtension,
                "IS_HIP_EXTENSION": False,
                "IS_WINDOWS": False,
                "ROCM_HOME": None,
            },
        }


def _no_packages(*_: object, **__: object) -> list[str]:
    return []


class _ToleratedProgram(subprocess.Popen):  # type: ignore[type-arg]
    """A program whose failure goes unnoticed: it may have to write to the project."""

    def wait(self, timeout: float | None = None) -> int:
        super().wait(timeout)
        return 0

    def poll(self) -> int | None:
        return None if super().poll() is None else 0


def _tolerate_denials() -> None:
    """Let a script go on where the sandbox denies a file, which is empty, or a new folder."""
    open_file, make_folder = io.open, os.mkdir

    def open_permitted(file: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return open_file(file, *arguments, **keywords)
        except PermissionError:
            return open_file(os.devnull, *arguments, **keywords)

    def make_permitted(*arguments: Any, **keywords: Any) -> None:
        with contextlib.suppress(PermissionError):
            make_folder(*arguments, **keywords)

    builtins.open = io.open = open_permitted
    os.mkdir = make_permitted
    subprocess.Popen = _ToleratedProgram  # type: ignore[misc]


def main() -> None:
    """Run the script in the config, and write its answer.

    The config has the project's `root`, the script's `text`, the machine (`capability`, the
    versions `cuda` and `torch`, `torch_folder`), a `scratch` folder, and the file for the `answer`.
    """
    config = read_config()
    root = config["root"]
    os.chdir(root)
    sys.argv = ["setup.py", "build_ext"]
    sys.path.insert(0, root)
    sys.meta_path.insert(0, _Finder(_STAND_INS))
    Command.build_lib = Command.build_temp = config["scratch"]
    _tolerate_denials()
    # A script ends itself where something is missing that nothing here needs.
    sys.exit = builtins.exit = builtins.quit = lambda *_: None  # type: ignore[assignment]
    recording = _Recording(config)
    recording.run()
    with open(config["answer"], "x", encoding="utf-8") as file:
        json.dump(recording.answer(), file)
