"""What a launches file holds: recorded launches, and what is noted between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from flacheck.model import Json, Launch

Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(gt=0)]
Grid = Annotated[tuple[int, ...], Meta(max_length=3)]
# Dotted names, outermost first.
CallPath = tuple[str, ...]


class TensorPlacement(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor in the storage at the place `storage`: shape, strides and offset in elements; the
    `values` of integers in the order of their indices, None where they are floats, too many, or
    known to nobody."""

    storage: Natural
    shape: tuple[Natural, ...]
    strides: tuple[Natural, ...]
    offset: Natural
    values: tuple[int, ...] | None = None


class Memory(Struct, frozen=True):
    """The bytes of each storage of a launch, and its tensors by argument; `name[0]` is an item of a
    tuple, and a tensor descriptor's tensor has the argument's name."""

    storages: tuple[Natural, ...]
    tensors: dict[str, TensorPlacement]

    def __post_init__(self) -> None:
        for name, placed in self.tensors.items():
            if placed.storage >= len(self.storages):
                raise ValueError(f"tensor {name}: there is no storage {placed.storage}")
            if len(placed.shape) != len(placed.strides):
                raise ValueError(f"tensor {name}: shape and strides differ in length")

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        return plain


class DefinedAt(Struct, frozen=True):
    """Where a function stood and what it said: its qualified name, its `file` as seen from the
    launches file, or from where its `package` was installed, and the digests of its definition and
    of the whole file."""

    name: str
    file: Annotated[str, Meta(pattern=r"^[^/\0][^\0]*\.py\Z")]
    digest: str
    whole: str
    package: str | None = None


class RecordedLaunch(Struct, frozen=True, kw_only=True):
    """One distinct launch of a program. `kernel` is `module:qualname`, `source` the digest of its
    cut-out `text`, in which it is called `qualname`; `uncut` says why there is no text.
    `heuristics` are the values that @triton.heuristics gave; `count` how often it was launched;
    `by` what the recorder was told was running; `made_up` marks arguments that a driver guessed for
    one of a package's inner functions; `guessed` says where the program read a value made up for
    it, on which this launch may rest; `refused` says where and why its source was not admitted,
    and is never read from a file. `memory` says where its tensors lie and `grids` what each
    configuration's grid is (None where it raised); `paths` are the dotted names of the functions
    through which it came, outermost first, once for each way; `defined` says where the kernel and
    its helpers stood. Files of earlier recorders have none of the four."""

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
    guessed: str | None = None
    count: Count = 1
    memory: Memory | None = None
    grids: tuple[Grid | None, ...] | None = None
    refused: str | None = None
    paths: tuple[CallPath, ...] | None = None
    defined: tuple[DefinedAt, ...] = ()

    def __post_init__(self) -> None:
        if not self.qualname.isidentifier():
            raise ValueError(f"qualname {self.qualname!r} is no name")
        if self.grids is not None and len(self.grids) != len(self.launch.configs):
            raise ValueError("grids is a list with a grid for each configuration")

    def without_decorators(self) -> Launch:
        """The launch as the cut-out kernel takes it: without decorators, so with what heuristics
        gave; its options are configurations."""
        launch = self.launch
        configs = [{**self.options, **config} for config in launch.configs]
        omitted = [name for name in launch.omitted if name not in self.heuristics]
        return Launch(
            {**launch.args, **self.heuristics},
            tuple(omitted),
            tuple(configs or [{"kwargs": {}, **self.options}]),
            launch.keys,
        )


@dataclass(frozen=True)
class Launches:
    """A whole file. `header` is its first line, `end` its last: None for a killed program."""

    header: Mapping[str, Any]
    launches: tuple[RecordedLaunch, ...]
    end: Mapping[str, Any] | None


class Repetition(Struct, frozen=True):
    """`count` more of the launch `of`, and the `paths` by which it came for the first time."""

    of: str
    count: Count
    paths: tuple[CallPath, ...] = ()


class NamedPath(Struct, frozen=True):
    """A call path, which later lines refer to by its digest."""

    path: str
    through: CallPath


class Guess(Struct, frozen=True):
    """`count` values of a kind that were made up for the program at a place."""

    at: str
    kind: str
    count: Count


@dataclass(frozen=True)
class Note:
    """A header or end line: what the recorder says of the run."""

    content: Mapping[str, Any]


Entry = RecordedLaunch | Repetition | NamedPath | Guess | Note
