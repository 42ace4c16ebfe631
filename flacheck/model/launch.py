"""Launches: calls of a kernel without data, in JSON's form, and what is allowed in them.

Launches files, matrices and the declarations of flacheck's own kernels are all checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import convert

from flacheck.model.values import Json

LAUNCHES_SCHEMA = "flacheck.launches/1"

# Names of Triton's element types, floating point first, as launches write them.
FLOAT_DTYPES = tuple("bf16 fp16 fp32 fp64 fp8e4nv fp8e5 fp8e4b8 fp8e5b16 fp8e4b15".split())
DTYPES = (*FLOAT_DTYPES, *"i1 i8 i16 i32 i64 u8 u16 u32 u64".split())
# What else people call them: torch's names, C's, and short forms of both.
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
# How triton.language spells the dtypes that a constexpr may hold, beside the names above.
_LANGUAGE_DTYPES = {
    *DTYPES,
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "int1",
    "void",
}
# Triton specialises on divisibility by 16; every recorder says the largest power up to that.
_ALIGNMENTS = (1, 2, 4, 8, 16)
# What the compilers of the known releases take; none of them names a file.
OPTIONS = frozenset(
    """num_warps num_stages num_ctas maxnreg waves_per_eu matrix_instr_nonkdim kpack
    enable_fp_fusion launch_cooperative_grid launch_cluster launch_pdl enable_warp_specialization
    num_buffers_warp_spec num_consumer_groups reg_dec_producer reg_inc_consumer allow_fp8e4nv
    max_num_imprecise_acc_default default_dot_input_precision enable_reflect_ftz schedule_hint
    sanitize_overflow debug minRegAutoWS maxRegAutoWS cluster_dims""".split()
)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SCALARS = (bool, int, float, str)
# Characters that UTF-8 cannot write.
_HALVES = re.compile("[\ud800-\udfff]")
# Bits of an integer, and levels of lists and mappings, beyond what any launch holds.
_LONGEST_INTEGER, _DEEPEST = 128, 40
# What later releases added to a tensor descriptor.
_DESCRIPTOR_EXTRAS: Mapping[str, tuple[Any, ...]] = {
    "padding": ("zero", "nan"),
    "round_f32_to_tf32": (False, True),
}


@dataclass(frozen=True)
class Launch:
    """One call of a kernel without data.

    `args` maps a parameter to `{"dtype", "align"}`, `{"int"}`, `{"float"}`, `{"constexpr"}` or
    None; `omitted` are the parameters that the caller leaves to the autotuner. An autotuner run
    also carries its `configs` and `keys`, and `heuristics`: what @triton.heuristics made of the
    real tensors, each value in an argument's form. In a declared launch `"{dtype}"` and `"{T}"`
    stand for the dtype and for a size, until `filled_in` puts them there.
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
        """Whether the launch waits for a dtype to be chosen."""
        return _holds(self.args, "{dtype}")

    @property
    def dtype(self) -> str | None:
        """The dtype that the launch is said to be in; None without a floating-point tensor."""
        return main_dtype(self.args)

    def filled_in(self, values: Mapping[str, Any]) -> Launch:
        """The launch with `values` for its placeholders; KeyError for one without a value."""
        return Launch.from_json(_filled_in(self.to_json(), values))

    def with_constants(self, constants: Mapping[str, Any]) -> Launch:
        """The launch with tuned constants in it; what heuristics supply stays omitted."""
        given = {name: {"constexpr": value} for name, value in constants.items()}
        return replace(
            self,
            args={**self.args, **given},
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
    """The name that a value such as "{T}" stands for, None for any other value."""
    if not isinstance(value, str):
        return None
    named = _PLACEHOLDER.fullmatch(value)
    return str(named[1]) if named else None


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(item, text) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds(item, text) for item in value)
    return bool(value == text)


def main_dtype(args: Mapping[str, Any]) -> str | None:
    """The dtype of a launch: its tensors' first 16- or 8-bit float, else their first float."""
    held: list[str] = [
        spec["dtype"]
        for spec in args.values()
        if isinstance(spec, Mapping) and isinstance(spec.get("dtype"), str)
    ]
    for dtype in held:
        if dtype in ("bf16", "fp16") or dtype.startswith("fp8"):
            return dtype
    return next((dtype for dtype in held if dtype.startswith("fp")), None)


def find_dtype(text: str) -> str | None:
    """The dtype that is called so: `bf16`, `bfloat16`, `torch.bfloat16`, `half`; None for none."""
    plain = text.strip().lower().removeprefix("torch.").removeprefix("tl.")
    if plain in DTYPES:
        return plain
    return _ALIASES.get(plain)


def with_known_dtypes(argument: Any) -> Any:
    """An argument of a launch in JSON with the dtypes' own names in place of others."""
    if not isinstance(argument, dict):
        return argument
    held = dict(argument)
    if isinstance(held.get("dtype"), str):
        held["dtype"] = find_dtype(held["dtype"]) or held["dtype"]
    if isinstance(held.get("tuple"), list):
        held["tuple"] = [with_known_dtypes(item) for item in held["tuple"]]
    if "descriptor" in held:
        held["descriptor"] = with_known_dtypes(held["descriptor"])
    return held


class FormError(Exception):
    """A launch that has none of the known forms: `path` leads to the part that is wrong."""

    def __init__(self, what: str, allowed: str = "", path: Sequence[str | int] = ()) -> None:
        self.what, self.allowed, self.path = what, allowed, tuple(path)
        super().__init__(f"{what}; {allowed}" if allowed else what)


@dataclass(frozen=True)
class LaunchForm:
    """Which values a launch may hold. `placeholders` are the names that a declared launch may leave
    open ("dtype", "T"), None for any name; a recorded launch leaves none open."""

    placeholders: tuple[str, ...] | None = ()

    def check(self, launch: Any, more: tuple[str, ...] = ()) -> None:
        """Raises FormError unless this is a launch; `more` are further fields that it may have."""
        args = launch.get("args") if isinstance(launch, dict) else None
        if not isinstance(args, dict):
            raise FormError(
                "a launch has args: {name: {dtype: …} | {int: …} | {constexpr: …} | null}"
            )
        for name in launch:
            if name not in ("args", "omitted", "configs", "keys", *more):
                raise FormError(f"{name!r} is no part of a launch", path=(name,))
        self.check_arguments(args)
        for part in ("omitted", "keys"):
            for name in _list(launch.get(part, []), part, (part,)):
                _check_name(name, (part,))
        for place, config in enumerate(_list(launch.get("configs", []), "configs", ("configs",))):
            self._check_config(config, ("configs", place))

    def check_arguments(self, args: Any, part: str = "args") -> None:
        """Raises FormError unless every argument has a known form."""
        if not isinstance(args, dict):
            raise FormError(f"{part} is a mapping of arguments", path=(part,))
        for name, spec in args.items():
            _check_name(name, (part, name))
            self.check_argument(name, spec, (part, name))

    def check_argument(self, name: str, spec: Any, path: Sequence[str | int] = ()) -> None:
        """One argument: None, or a mapping of exactly one of the known kinds."""
        if spec is None:
            return
        kind = next(iter(spec), None) if isinstance(spec, dict) else None
        check = self._kinds().get(str(kind))
        if check is None or (len(spec) > 1 and kind != "dtype"):
            known = ", ".join(self._kinds())
            raise FormError(f"argument {name}: {spec!r}", f"it is null or one of {known}", path)
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
            known = ", ".join(DTYPES)
            raise FormError(f"argument {name}: unknown dtype {dtype!r}", f"known are {known}", path)
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
        held = spec["constexpr"]
        if placeholder(held) is not None and self.placeholders and not self._is_open(held):
            raise FormError(f"argument {name}: {held!r}", self._sizes("a literal"), path)
        _check_constant(name, held, path)

    def _check_descriptor(self, name: str, spec: Json, path: Sequence[str | int]) -> None:
        held = spec["descriptor"]
        needed = {"dtype", "align", "shape", "strides", "block"}
        if not isinstance(held, dict) or set(held) - set(_DESCRIPTOR_EXTRAS) != needed:
            what = "a descriptor has dtype, align, shape, strides and block"
            raise FormError(f"argument {name}: {what}", path=path)
        for extra, values in _DESCRIPTOR_EXTRAS.items():
            said = held.get(extra, values[0])
            if not isinstance(said, type(values[0])) or said not in values:
                what = f"{extra} of a descriptor is one of {values}"
                raise FormError(f"argument {name}: {what}", path=path)
        self._check_tensor(name, {"dtype": held["dtype"], "align": held["align"]}, path)
        for part in ("shape", "strides", "block"):
            if not all(is_int(extent) for extent in _list(held[part], part, path)):
                raise FormError(f"argument {name}: {part} of a descriptor are numbers", path=path)

    def _check_config(self, config: Any, path: Sequence[str | int]) -> None:
        if not isinstance(config, dict) or not isinstance(config.get("kwargs", {}), dict):
            raise FormError("a configuration is {kwargs: {…}, num_warps: …}", path=path)
        for name, value in config.get("kwargs", {}).items():
            _check_name(name, path)
            _check_constant(name, value, path)
        check_options({name: held for name, held in config.items() if name != "kwargs"}, path)

    def _sizes(self, plain: str) -> str:
        names = [name for name in self.placeholders or () if name != "dtype"]
        sizes = ", ".join(f'"{{{name}}}"' for name in names)
        return f"{plain}, or one of {sizes}" if sizes else plain


def is_int(value: Any) -> bool:
    """An integer that is no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_plain(value: Any, path: Sequence[str | int] = ()) -> None:
    """Raises FormError for what cannot be hashed, stored or sent: half a character (a lone
    surrogate), a number of hundreds of digits, lists within lists without end."""
    if len(path) > _DEEPEST:
        raise FormError("it is nested too deeply", f"{_DEEPEST} levels are the most", path)
    if isinstance(value, str):
        if _HALVES.search(value):
            raise FormError(f"{value[:40]!r} is no text: it holds half a character", path=path)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_plain(str(key), path)
            check_plain(item, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            check_plain(item, (*path, place))
    elif is_int(value) and value.bit_length() > _LONGEST_INTEGER:
        raise FormError("a number is too large", f"{_LONGEST_INTEGER} bits are the most", path)


def check_options(options: Any, path: Sequence[str | int] = ()) -> None:
    """Raises FormError for an option that no release's compiler has, or that could name a file."""
    if not isinstance(options, dict):
        raise FormError("options are a mapping", path=path)
    for name in options:
        if name not in OPTIONS:
            known = ", ".join(sorted(OPTIONS))
            raise FormError(f"option {name!r} is unknown", f"known are {known}", path)
    check_constants(options, path)


def check_constants(values: Any, path: Sequence[str | int] = ()) -> None:
    """Raises FormError unless this maps names to values that a constexpr or an option may have."""
    if not isinstance(values, dict):
        raise FormError(f"{values!r} is no mapping of names to values", path=path)
    for name, value in values.items():
        _check_constant(name, value, path)


def _check_constant(name: str, value: Any, path: Sequence[str | int]) -> None:
    if value is None or isinstance(value, _SCALARS):
        return
    if not isinstance(value, dict) or len(value) != 1:
        raise FormError(f"constant {name}: {value!r}", path=path)
    kind, held = next(iter(value.items()))
    if kind == "tuple":
        for item in _list(held, f"constant {name}", path):
            _check_constant(name, item, path)
    elif kind == "dtype":
        if not isinstance(held, str) or held not in _LANGUAGE_DTYPES:
            raise FormError(f"constant {name}: {held!r} is no dtype of the language", path=path)
    elif kind == "function":
        _check_name(held, path)
    elif kind != "unknown":
        raise FormError(f"constant {name}: {value!r}", path=path)


def _check_name(name: Any, path: Sequence[str | int]) -> None:
    # A name with two underscores in front would lead to Python's own attributes.
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
        raise FormError(f"{name!r} is no name of an argument", path=path)


def _list(value: Any, name: str, path: Sequence[str | int]) -> list[Any]:
    if not isinstance(value, list):
        raise FormError(f"{name} is a list", path=path)
    return value
