"""Launches: calls of a kernel without data, in JSON form, and their validation.

The files of launches, the matrices and the declarations of flacheck's own kernels are all checked
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from msgspec import Meta, convert

from flacheck.model.values import Json

LAUNCHES_SCHEMA = "flacheck.launches/1"

# Names of Triton's element types, floating point first, as launches write them.
FLOAT_DTYPES = tuple("bf16 fp16 fp32 fp64 fp8e4nv fp8e5 fp8e4b8 fp8e5b16 fp8e4b15".split())
DTYPES = (*FLOAT_DTYPES, *"i1 i8 i16 i32 i64 u8 u16 u32 u64".split())
# Other common names: those of torch and C, and short forms of both.
_ALIASES: Mapping[str, str] = {
    "bfloat16": "bf16",
    "half": "fp16",
    "float": "fp32",
    "double": "fp64",
    **{f"{kind}{bits}": f"fp{bits}" for kind in ("float", "f") for bits in (16, 32, 64)},
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    "bool": "i1",
    "int1": "i1",
    "short": "i16",
    "int": "i32",
    "long": "i64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
_LANGUAGE_KINDS = {"fp": "float", "bf": "bfloat", "i": "int", "u": "uint"}
# Spellings of dtypes in triton.language that a constexpr may hold, beside the names above.
_LANGUAGE_DTYPES = {
    *DTYPES,
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "int1",
    "void",
}
# Triton specialises on divisibility by 16; recorders store the largest power of two up to that.
_ALIGNMENTS = (1, 2, 4, 8, 16)
# Options of the compilers of all supported releases; none of them names a file.
OPTIONS = frozenset(
    """num_warps num_stages num_ctas maxnreg waves_per_eu matrix_instr_nonkdim kpack
    enable_fp_fusion launch_cooperative_grid launch_cluster launch_pdl enable_warp_specialization
    num_buffers_warp_spec num_consumer_groups reg_dec_producer reg_inc_consumer allow_fp8e4nv
    max_num_imprecise_acc_default default_dot_input_precision enable_reflect_ftz schedule_hint
    sanitize_overflow debug minRegAutoWS maxRegAutoWS cluster_dims""".split()
)
# The GPU is that of the cell: an option that names another one may only be unset.
_UNSET_OPTIONS = frozenset(("arch",))
# Options that are numbers.
_COUNTS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SCALARS = (bool, int, float, str)
# Lone surrogates, which UTF-8 cannot encode.
_SURROGATES = re.compile("[\ud800-\udfff]")
# Bits of an integer, and levels of lists and mappings, beyond what any launch holds.
_LONGEST_INTEGER, _DEEPEST = 128, 40
# Fields that later releases added to a tensor descriptor.
_DESCRIPTOR_EXTRAS: Mapping[str, tuple[Any, ...]] = {
    "padding": ("zero", "nan"),
    "round_f32_to_tf32": (False, True),
}


_ARGUMENT_SCHEMA = {
    "description": "A tensor, an integer, a float, None or a constexpr of any kind.",
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "required": ["dtype"],
            "properties": {"dtype": {"type": "string"}, "align": {"type": "integer"}},
        },
        {"type": "object", "required": ["int"], "properties": {"int": {"type": "integer"}}},
        {
            "type": "object",
            "required": ["float"],
            "properties": {
                "float": {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
            },
        },
        {"type": "object", "required": ["constexpr"]},
    ],
}
_NAMES_SCHEMA = {"type": "array", "items": {"type": "string"}}
_ARGUMENTS_SCHEMA = {"type": "object", "additionalProperties": _ARGUMENT_SCHEMA}
# A launch in the form of `Launch.to_json`.
LaunchJson = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "required": ["args"],
            "additionalProperties": False,
            "properties": {
                "args": _ARGUMENTS_SCHEMA,
                "omitted": _NAMES_SCHEMA,
                "configs": {"type": "array", "items": {"type": "object"}},
                "keys": _NAMES_SCHEMA,
                # The values that @triton.heuristics computed from the real tensors.
                "heuristics": _ARGUMENTS_SCHEMA,
            },
        }
    ),
]


@dataclass(frozen=True)
class Launch:
    """One call of a kernel without data.

    `args` maps a parameter to `{"dtype", "align"}`, `{"int"}`, `{"float"}`, `{"constexpr"}` or
    None; `omitted` are the parameters that the caller leaves to the autotuner. An autotuner run
    also carries its `configs` and `keys`, and `heuristics`: the values that @triton.heuristics
    computed from the real tensors, in the form of arguments. In a declared launch `"{dtype}"` and
    `"{T}"` are placeholders for the dtype and a size, which `filled_in` replaces.
    """

    args: Mapping[str, Any]
    omitted: tuple[str, ...] = ()
    configs: tuple[Mapping[str, Any], ...] = ()
    keys: tuple[str, ...] = ()
    heuristics: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> Json:
        plain: Json = {"args": dict(self.args)}
        lists = {"omitted": self.omitted, "configs": self.configs, "keys": self.keys}
        plain.update({name: list(values) for name, values in lists.items() if values})
        if self.heuristics:
            plain["heuristics"] = dict(self.heuristics)
        return plain

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Launch:
        return convert(value, Launch)

    @property
    def names_dtype(self) -> bool:
        """True if the launch contains the dtype placeholder."""
        return _holds(self.args, "{dtype}")

    @property
    def dtype(self) -> str | None:
        """The dtype by which the launch is named; None without a floating-point tensor."""
        return main_dtype(self.args)

    def filled_in(self, values: Mapping[str, Any]) -> Launch:
        """Return the launch with `values` for its placeholders.

        Raises KeyError for a placeholder without a value.
        """
        return Launch.from_json(_filled_in(self.to_json(), values))

    def with_constants(self, constants: Mapping[str, Any]) -> Launch:
        """Return the launch with these tuned constants.

        Parameters that heuristics supply stay omitted.
        """
        constexprs = {name: {"constexpr": value} for name, value in constants.items()}
        return replace(
            self,
            args={**self.args, **constexprs},
            omitted=tuple(name for name in self.omitted if name not in constants),
            configs=(),
            keys=(),
        )


def _filled_in(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled_in(item, values) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_filled_in(item, values) for item in value]
    name = placeholder(value)
    return value if name is None else values[name]


def placeholder(value: Any) -> str | None:
    """Return the name in a placeholder such as "{T}", None for any other value."""
    if not isinstance(value, str):
        return None
    match = _PLACEHOLDER.fullmatch(value)
    return str(match[1]) if match else None


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds(item, text) for item in value)
    return bool(value == text)


def main_dtype(args: Mapping[str, Any]) -> str | None:
    """Return the dtype of a launch: its tensors' first 16- or 8-bit float, else the first float.

    The tensors of descriptors and those in tuples count, too.
    """
    first_float = None
    for dtype in tensor_dtypes(args.values()):
        if dtype in ("bf16", "fp16") or dtype.startswith("fp8"):
            return dtype
        if first_float is None and dtype.startswith("fp"):
            first_float = dtype
    return first_float


def tensor_dtypes(specs: Iterable[Any]) -> Iterator[str]:
    """Yield the dtype of each tensor among some arguments, in order."""
    for spec in specs:
        if not isinstance(spec, Mapping):
            continue
        if isinstance(spec.get("tuple"), (list, tuple)):
            yield from tensor_dtypes(spec["tuple"])
        descriptor = spec.get("descriptor")
        holder = descriptor if isinstance(descriptor, Mapping) else spec
        if isinstance(holder.get("dtype"), str):
            yield holder["dtype"]


def find_dtype(text: str) -> str | None:
    """Return the dtype for a name such as `bfloat16` or `torch.bfloat16`, None if unknown."""
    plain = text.strip().lower().removeprefix("torch.").removeprefix("tl.")
    if plain in DTYPES:
        return plain
    return _ALIASES.get(plain)


def language_name(dtype: str) -> str:
    """Return the name of a dtype in Triton's language: `float16` for fp16, `uint8` for u8."""
    return re.sub(r"^(fp|bf|i|u)(?=\d)", lambda match: _LANGUAGE_KINDS[match[1]], dtype)


def with_known_dtypes(argument: Any) -> Any:
    """Return a launch argument in JSON with Triton's names for its dtypes."""
    if not isinstance(argument, dict):
        return argument
    copy = dict(argument)
    if isinstance(copy.get("dtype"), str):
        copy["dtype"] = find_dtype(copy["dtype"]) or copy["dtype"]
    if isinstance(copy.get("tuple"), list):
        copy["tuple"] = [with_known_dtypes(item) for item in copy["tuple"]]
    if "descriptor" in copy:
        copy["descriptor"] = with_known_dtypes(copy["descriptor"])
    return copy


class FormError(Exception):
    """A launch of an invalid form: `path` leads to the invalid part."""

    def __init__(self, what: str, hint: str = "", path: Sequence[str | int] = ()) -> None:
        self.what, self.hint, self.path = what, hint, tuple(path)
        super().__init__(f"{what}; {hint}" if hint else what)


@dataclass(frozen=True)
class LaunchForm:
    """The values that a launch may hold.

    `placeholders` are the names that a declared launch may leave open ("dtype", "T"), None for any
    name; a recorded launch leaves none open.
    """

    placeholders: tuple[str, ...] | None = ()

    def check(self, launch: Any, more: tuple[str, ...] = ()) -> None:
        """Raise FormError unless this is a launch; `more` are further allowed fields."""
        args = launch.get("args") if isinstance(launch, dict) else None
        if not isinstance(args, dict):
            raise FormError(
                "a launch has args: {name: {dtype: …} | {int: …} | {constexpr: …} | null}"
            )
        for name in launch:
            if name not in ("args", "omitted", "configs", "keys", *more):
                raise FormError(f"{name!r} is not part of a launch", path=(name,))
        self.check_arguments(args)
        for part in ("omitted", "keys"):
            for name in _list(launch.get(part, []), part, (part,)):
                _check_name(name, (part,))
        for place, config in enumerate(_list(launch.get("configs", []), "configs", ("configs",))):
            self._check_config(config, ("configs", place))

    def check_arguments(self, args: Any, part: str = "args") -> None:
        """Raise FormError unless every argument has a known form."""
        if not isinstance(args, dict):
            raise FormError(f"{part} is a mapping of arguments", path=(part,))
        for name, spec in args.items():
            _check_name(name, (part, name))
            self.check_argument(name, spec, (part, name))

    def check_argument(self, name: str, spec: Any, path: Sequence[str | int] = ()) -> None:
        """Raise FormError unless the argument is None or a mapping of exactly one known kind."""
        if spec is None:
            return
        kind = next(iter(spec), None) if isinstance(spec, dict) else None
        check = self._kinds().get(str(kind))
        if check is None or (len(spec) > 1 and kind != "dtype"):
            kinds = ", ".join(self._kinds())
            raise FormError(f"argument {name}: {spec!r}", f"it is null or one of {kinds}", path)
        check(name, spec, path)

    def _kinds(self) -> Mapping[str, Callable[..., None]]:
        return {
            "dtype": self._check_tensor,
            "int": self._check_integer,
            "float": self._check_float,
            "bool": self._check_flag,
            "tuple": self._check_tuple,
            "constexpr": self._check_constexpr,
            "descriptor": self._check_descriptor,
            "unknown": self._check_unknown,
        }

    def _is_open(self, value: Any) -> bool:
        name = placeholder(value)
        return name is not None and (self.placeholders is None or name in self.placeholders)

    def _check_tensor(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        dtype = spec["dtype"]
        if not isinstance(dtype, str):
            raise FormError(f"argument {name}: dtype {dtype!r}", "a dtype is a word", path)
        if dtype not in DTYPES and not (dtype == "{dtype}" and self._is_open(dtype)):
            names = ", ".join(DTYPES)
            raise FormError(f"argument {name}: unknown dtype {dtype!r}", f"known are {names}", path)
        if set(spec) - {"dtype", "align"}:
            raise FormError(f"argument {name}: {spec!r}", "a tensor has dtype and align", path)
        align = spec.get("align", 16)
        if not is_int(align) or align not in _ALIGNMENTS:
            raise FormError(f"argument {name}: align is 1, 2, 4, 8 or 16", path=path)

    def _check_integer(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        if not is_int(spec["int"]) and not self._is_open(spec["int"]):
            raise FormError(f"argument {name}: {spec!r}", self._sizes("an integer"), path)

    def _check_float(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        value = spec["float"]
        if not is_int(value) and not isinstance(value, float) and not self._is_open(value):
            raise FormError(f"argument {name}: {spec!r}", "a number", path)

    def _check_flag(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        if not isinstance(spec["bool"], bool):
            raise FormError(f"argument {name}: {spec!r}", "true or false", path)

    def _check_unknown(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        if not isinstance(spec["unknown"], str):
            raise FormError(f"argument {name}: {spec!r}", path=path)

    def _check_tuple(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        for item in _list(spec["tuple"], f"argument {name}", path):
            self.check_argument(name, item, path)

    def _check_constexpr(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        value = spec["constexpr"]
        if placeholder(value) is not None and self.placeholders and not self._is_open(value):
            raise FormError(f"argument {name}: {value!r}", self._sizes("a literal"), path)
        _check_constant(name, value, path)

    def _check_descriptor(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        descriptor = spec["descriptor"]
        fields = {"dtype", "align", "shape", "strides", "block"}
        if not isinstance(descriptor, dict) or set(descriptor) - set(_DESCRIPTOR_EXTRAS) != fields:
            what = "a descriptor has dtype, align, shape, strides and block"
            raise FormError(f"argument {name}: {what}", path=path)
        for extra, values in _DESCRIPTOR_EXTRAS.items():
            value = descriptor.get(extra, values[0])
            if not isinstance(value, type(values[0])) or value not in values:
                what = f"{extra} of a descriptor is one of {values}"
                raise FormError(f"argument {name}: {what}", path=path)
        self._check_tensor(name, {"dtype": descriptor["dtype"], "align": descriptor["align"]}, path)
        for part in ("shape", "strides", "block"):
            if not all(is_int(extent) for extent in _list(descriptor[part], part, path)):
                raise FormError(f"argument {name}: {part} of a descriptor are numbers", path=path)

    def _check_config(self, config: Any, path: Sequence[str | int]) -> None:
        if not isinstance(config, dict) or not isinstance(config.get("kwargs", {}), dict):
            raise FormError("a configuration is {kwargs: {…}, num_warps: …}", path=path)
        for name, value in config.get("kwargs", {}).items():
            _check_name(name, path)
            _check_constant(name, value, path)
        check_options({name: value for name, value in config.items() if name != "kwargs"}, path)

    def _sizes(self, plain: str) -> str:
        sizes = []
        for name in self.placeholders or ():
            if name != "dtype":
                sizes.append(f'"{{{name}}}"')
        if not sizes:
            return plain
        return f"{plain}, or one of {', '.join(sizes)}"


def is_int(value: Any) -> bool:
    """Return True for an integer that is not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_plain(value: Any, path: Sequence[str | int] = ()) -> None:
    """Raise FormError for a value that cannot be hashed, stored or sent.

    These are lone surrogates, numbers of hundreds of digits and lists nested without limit.
    """
    if not _is_plain(value):
        _name_part(value, path)


def _is_plain(value: Any) -> bool:
    """Return True if `_name_part` finds nothing; captures have millions of values."""
    level = [value]
    for _ in range(_DEEPEST):
        deeper: list[Any] = []
        for each in level:
            if isinstance(each, str):
                if not each.isascii() and _SURROGATES.search(each):
                    return False
            elif isinstance(each, dict):
                deeper += map(str, each)
                deeper += each.values()
            elif isinstance(each, (list, tuple)):
                deeper += each
            elif isinstance(each, int) and each.bit_length() > _LONGEST_INTEGER:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _name_part(value: Any, path: Sequence[str | int]) -> None:
    """Raise FormError for the first part that is not plain."""
    if len(path) > _DEEPEST:
        raise FormError("it is nested too deeply", f"{_DEEPEST} levels are the most", path)
    if isinstance(value, str):
        if _SURROGATES.search(value):
            raise FormError(
                f"{value[:40]!r} is not valid text: it contains a lone surrogate", path=path
            )
    elif isinstance(value, dict):
        for key, item in value.items():
            _name_part(str(key), path)
            _name_part(item, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            _name_part(item, (*path, place))
    elif is_int(value) and value.bit_length() > _LONGEST_INTEGER:
        raise FormError("a number is too large", f"{_LONGEST_INTEGER} bits are the most", path)


def check_options(options: Any, path: Sequence[str | int] = ()) -> None:
    """Raise FormError for an option that no supported compiler has or that could name a file.

    Numbers of warps, stages, CTAs and registers are numbers.
    """
    if not isinstance(options, dict):
        raise FormError("options are a mapping", path=path)
    for name, value in options.items():
        if name in _UNSET_OPTIONS and value is None:
            continue
        if name not in OPTIONS:
            names = ", ".join(sorted(OPTIONS))
            raise FormError(f"option {name!r} is unknown", f"known are {names}", path)
    for name in _COUNTS:
        value = options.get(name)
        if value is not None and not isinstance(value, (int, float)):
            raise FormError(f"option {name}: {value!r}", "it is a number", path)
    check_constants(options, path)


def check_constants(values: Any, path: Sequence[str | int] = ()) -> None:
    """Raise FormError unless this maps names to values allowed for a constexpr or an option."""
    if not isinstance(values, dict):
        raise FormError(f"{values!r} is not a mapping of names to values", path=path)
    for name, value in values.items():
        _check_constant(name, value, path)


def _check_constant(name: str, value: Any, path: Sequence[str | int]) -> None:
    if value is None or isinstance(value, _SCALARS):
        return
    if not isinstance(value, dict) or len(value) != 1:
        raise FormError(f"constant {name}: {value!r}", path=path)
    kind, content = next(iter(value.items()))
    if kind == "tuple":
        for item in _list(content, f"constant {name}", path):
            _check_constant(name, item, path)
    elif kind == "dtype":
        if not isinstance(content, str) or content not in _LANGUAGE_DTYPES:
            raise FormError(
                f"constant {name}: {content!r} is not a dtype of the language", path=path
            )
    elif kind == "function":
        _check_name(content, path)
    elif kind != "unknown":
        raise FormError(f"constant {name}: {value!r}", path=path)


def _check_name(name: Any, path: Sequence[str | int]) -> None:
    # A name with two underscores in front would lead to Python's own attributes.
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
        raise FormError(f"{name!r} is not the name of an argument", path=path)


def _list(value: Any, name: str, path: Sequence[str | int]) -> list[Any]:
    if not isinstance(value, list):
        raise FormError(f"{name} is a list", path=path)
    return value
