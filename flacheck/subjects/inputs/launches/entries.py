"""The entries of a launches file: recorded launches, counts, call paths, guesses and notes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct

from flacheck.model import Launch
from flacheck.model.wire import JsonStruct

Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(gt=0)]
Grid = Annotated[tuple[int, ...], Meta(max_length=3)]
# Dotted names, outermost first.
CallPath = tuple[str, ...]


class TensorPlacement(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor in a storage, with shape, strides and offset in elements.

    `storage` is the index of the storage. `values` are integers in the order of their indices, None
    if they are floats, too many, or unknown.
    """

    storage: Natural
    shape: tuple[Natural, ...]
    strides: tuple[Natural, ...]
    offset: Natural
    values: tuple[int, ...] | None = None


class Memory(JsonStruct, frozen=True):
    """The bytes of each storage of a launch, and its tensors by argument.

    `name[0]` is an item of a tuple; a tensor descriptor's tensor has the argument's name.
    """

    storages: tuple[Natural, ...]
    tensors: dict[str, TensorPlacement]

    def __post_init__(self) -> None:
        for name, tensor in self.tensors.items():
            if tensor.storage >= len(self.storages):
                raise ValueError(f"tensor {name}: there is no storage {tensor.storage}")
            if len(tensor.shape) != len(tensor.strides):
                raise ValueError(f"tensor {name}: shape and strides differ in length")


class DefinedAt(Struct, frozen=True):
    """A function's place and text when it was recorded.

    `name` is qualified; `file` is relative to the launches file, or to the folder in which its
    `package` was installed; `digest` is that of the definition, `whole` that of the file.
    """

    name: str
    file: Annotated[str, Meta(pattern=r"^[^/\0][^\0]*\.py\Z")]
    digest: str
    whole: str
    package: str | None = None


class RecordedLaunch(Struct, frozen=True, kw_only=True):
    """One distinct launch of a program.

    - `kernel`: `module:qualname`
    - `source`: the digest of the cut-out `text`, in which the kernel has the name `qualname`
    - `uncut`: the reason why the text is missing
    - `heuristics`: the values from @triton.heuristics
    - `count`: the number of launches
    - `by`: the running program, as the recorder's caller named it
    - `made_up`: True if a driver launched the kernel alone, or with constants that nobody gave
    - `call`: how a driver made the launch: test, plain call, layer, inner
      function, alone, or failed call; None for a program's own launch
    - `sizes_from`: where the sizes of a driver's call come from: a model, the package, or the grid
    - `candidate`: True if the program chooses among several kernels for the launch
    - `guessed`: the place where the program read a made-up value on which this launch may depend
    - `refused`: the place and the reason if the source is refused; never read from a file
    - `memory`: the layout of its tensors
    - `grids`: the grid of each configuration, None if it raised an error
    - `paths`: the dotted names of the functions on each call path, outermost first
    - `defined`: the places of the kernel and its helpers

    Files of earlier recorders lack the last four, `call` and `sizes_from`.
    """

    id: str
    kernel: str
    qualname: str
    launch: Launch
    package: str | None = None
    options: dict[str, Any] = {}
    grid: Grid | None = None
    source: str | None = None
    text: str | None = None
    heuristics: dict[str, Any] = {}
    uncut: str | None = None
    by: str | None = None
    made_up: bool = False
    call: str | None = None
    sizes_from: str | None = None
    candidate: bool = False
    guessed: str | None = None
    count: Count = 1
    memory: Memory | None = None
    grids: tuple[Grid | None, ...] | None = None
    refused: str | None = None
    paths: tuple[CallPath, ...] | None = None
    defined: tuple[DefinedAt, ...] = ()

    def __post_init__(self) -> None:
        if not self.qualname.isidentifier():
            raise ValueError(f"qualname {self.qualname!r} is not a name")
        if self.grids is not None and len(self.grids) != len(self.launch.configs):
            raise ValueError("grids is a list with a grid for each configuration")

    def without_decorators(self) -> Launch:
        """Return the launch of the cut-out kernel, which lacks decorators.

        The values of heuristics are arguments, and options are configurations.
        """
        launch = self.launch
        configs = [{**self.options, **config} for config in launch.configs]
        if not configs:
            configs = [{"kwargs": {}, **self.options}]
        omissions = [name for name in launch.omitted if name not in self.heuristics]
        arguments = {**launch.args, **self.heuristics}
        return Launch(arguments, tuple(omissions), tuple(configs), launch.keys)


@dataclass(frozen=True)
class Launches:
    """A whole file. `header` is its first line, `end` its last: None for a killed program."""

    header: Mapping[str, Any]
    launches: tuple[RecordedLaunch, ...]
    end: Mapping[str, Any] | None


class Repetition(Struct, frozen=True):
    """`count` more launches of the launch `of`, and their new call paths."""

    of: str
    count: Count
    paths: tuple[CallPath, ...] = ()


class NamedPath(Struct, frozen=True):
    """A call path; later lines refer to its digest."""

    path: str
    through: CallPath


class Guess(Struct, frozen=True):
    """A number of values of a kind that were made up for the program at a place."""

    at: str
    kind: str
    count: Count


@dataclass(frozen=True)
class Note:
    """A header or end line, with the recorder's notes on the run."""

    content: Mapping[str, Any]


Entry = RecordedLaunch | Repetition | NamedPath | Guess | Note
