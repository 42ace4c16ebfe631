"""Frozen Structs that travel as JSON; the schemas are generated from their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, to_builtins

from flacheck.model.values import Json

Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
NotEmpty = Annotated[str, Meta(min_length=1)]
# A failure code, `FC302`.
Code = Annotated[str, Meta(pattern=r"^FC[0-9]{3}$")]
# A compiler at an exact version, `triton==3.6.0`.
ToolchainName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]+==.+$")]
# The digest of a cell.
_Document = TypeVar("_Document", bound="JsonStruct")
CellKey = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]


class JsonStruct(Struct, frozen=True, forbid_unknown_fields=True):
    """A value whose JSON is its fields."""

    def to_json(self) -> Json:
        """Return the fields as plain JSON values."""
        plain: Json = to_plain(self)
        return plain

    @classmethod
    def from_value(cls: type[_Document], value: object, **others: Any) -> _Document:
        """Return a Struct with the attributes of a value; `others` replace some of them."""
        for name in cls.__struct_fields__:
            if name not in others:
                others[name] = getattr(value, name)
        return cls(**others)


def to_plain(value: Any) -> Any:
    """Return a value of Structs, enums and tuples as plain JSON values."""
    return _with_lists(to_builtins(value))


def _with_lists(value: Any) -> Any:
    # Infinities stay floats here; a report writes them as words.
    if isinstance(value, Mapping):
        return {name: _with_lists(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_lists(item) for item in value]
    return value
