"""Kernels, and the places from which a worker loads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec import Struct, convert, field, to_builtins

from flacheck.model.values import Json


class Corpus(Struct, frozen=True):
    """A function of one of flacheck's own kernel files, `kernels/FAMILY.py`."""

    family: str = field(name="corpus")
    name: str
    how: ClassVar[str] = "corpus"


class Imported(Struct, frozen=True, omit_defaults=True):
    """A function of a package, imported beside torch; without `qualname` the module itself.

    `cut` is the source extracted by its capture, for a worker that cannot import the module.
    """

    module: str = field(name="import")
    qualname: str | None = None
    made_up: bool = False
    cut: str | None = None
    how: ClassVar[str] = "import"


class Stubbed(Struct, frozen=True, omit_defaults=True):
    """A function of a package, loaded beside a torch stub."""

    module: str
    qualname: str
    made_up: bool = False
    how: ClassVar[str] = "stub"


class Cut(Struct, frozen=True, omit_defaults=True):
    """A function in a source of its own, extracted from its program with all its dependencies.

    A `candidate` is one of several sources for a launch, from which the program chooses.
    """

    source: str
    qualname: str
    made_up: bool = False
    candidate: bool = False
    how: ClassVar[str] = "cut"


class Unit(Struct, frozen=True, omit_defaults=True):
    """A CUDA C++ translation unit: a file below flacheck's kernels or a project's folder.

    `flags` are the compiler flags of the project's build, `includes` its include folders; paths are
    relative to that folder.
    """

    file: str = field(name="unit")
    flags: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    how: ClassVar[str] = "unit"


class Unrecorded(Struct, frozen=True):
    """A kernel of a record whose source is not stored, so nothing can compile it again."""

    how: str
    made_up: bool = False


Origin = Corpus | Imported | Stubbed | Cut | Unit | Unrecorded
# The field that occurs in one kind of origin only, and that kind.
_KINDS = {"corpus": Corpus, "import": Imported, "module": Stubbed, "source": Cut, "unit": Unit}


def origin_from_json(value: Mapping[str, Any]) -> Origin:
    """Return the origin of a stored kernel.

    Raises ValueError for an unknown kind.
    """
    for name, kind in _KINDS.items():
        if name in value:
            origin: Origin = convert(value, kind)
            return origin
    raise ValueError(f"no origin of a kernel: {sorted(value)}")


def origin_to_json(origin: Origin) -> Json:
    """Return the origin in the form that workers and stores read."""
    plain: Json = to_builtins(origin)
    return plain


@dataclass(frozen=True)
class Kernel:
    """A compiled function: `@triton.jit` or a CUDA C++ translation unit.

    `name` is `family.name` for flacheck's own kernels, `module:qualname` for a package's kernels
    and the file's path for a project's translation units. `digest` is a hash of the source with all
    its dependencies. `operator` and `form` ("chunk", "fused_recurrent") group kernels that compute
    the same result differently.
    """

    name: str
    package: str | None
    digest: str
    origin: Origin
    operator: str | None = None
    form: str | None = None

    @property
    def is_of_package(self) -> bool:
        """True if a worker needs the kernel's package to load it."""
        if isinstance(self.origin, Unit):
            return self.package is not None
        return isinstance(self.origin, (Imported, Stubbed))

    @property
    def is_made_up(self) -> bool:
        """True if flacheck invented the call that launches the kernel."""
        return getattr(self.origin, "made_up", False)

    @property
    def is_candidate(self) -> bool:
        """True if the program can do without the kernel, because it has others for the launch."""
        return getattr(self.origin, "candidate", False)

    @property
    def language(self) -> str:
        """The kernel's language, which selects the families of compilers."""
        if isinstance(self.origin, Unit):
            return "cuda"
        return "triton"

    @property
    def is_imported(self) -> bool:
        """True if a worker needs torch to load the kernel."""
        return isinstance(self.origin, Imported)

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        return plain

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Kernel:
        return Kernel(**{**value, "origin": origin_from_json(value["origin"])})
