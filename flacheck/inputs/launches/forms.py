"""The forms that a launch's arguments, configurations and options have in a file, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DTYPES = frozenset(
    "fp64 fp32 fp16 bf16 fp8e4nv fp8e5 fp8e4b8 fp8e5b16 fp8e4b15 i1 i8 i16 i32 i64 u8 u16 u32 u64".split()
)
LANGUAGE_DTYPES = (
    DTYPES
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {"int1", "void"}
)
ALIGNMENTS = frozenset((1, 2, 4, 8, 16))
OPTIONS = frozenset(
    """num_warps num_stages num_ctas maxnreg waves_per_eu matrix_instr_nonkdim kpack enable_fp_fusion
    launch_cooperative_grid launch_cluster launch_pdl enable_warp_specialization num_buffers_warp_spec
    num_consumer_groups reg_dec_producer reg_inc_consumer allow_fp8e4nv max_num_imprecise_acc_default
    default_dot_input_precision enable_reflect_ftz schedule_hint sanitize_overflow debug minRegAutoWS maxRegAutoWS
    cluster_dims""".split()
)
_SCALARS = (bool, int, float, str)


class FormError(Exception):
    """A value in a launches file that has none of the known forms."""


def check_launch(launch: Mapping[str, Any], heuristics: Any) -> None:
    """Raises FormError unless a launch has the contract's form."""
    args = launch.get("args")
    if not isinstance(args, dict) or not isinstance(heuristics, dict):
        raise FormError("a launch has args: {name: {dtype: …} | {int: …} | {constexpr: …} | null}")
    unknown = set(launch) - {"args", "omitted", "configs", "keys"}
    if unknown:
        raise FormError(f"{sorted(unknown)[0]!r} is no part of a launch")
    for name, spec in [*args.items(), *heuristics.items()]:
        _check_name(name)
        check_argument(name, spec)
    for part in ("omitted", "keys"):
        for name in _list(part, launch.get(part, [])):
            _check_name(name)
    for config in _list("configs", launch.get("configs", [])):
        _check_config(config)


def check_argument(name: str, spec: Any) -> None:
    """One argument: null, or a mapping of exactly one of the known kinds."""
    if spec is None:
        return
    if not isinstance(spec, dict) or not spec:
        raise FormError(f"argument {name}: {spec!r} is no mapping")
    kind = next(iter(spec))
    check = _KINDS.get(kind)
    if check is None or (len(spec) > 1 and kind != "dtype"):
        raise FormError(f"argument {name}: {spec!r}; it is null or one of {', '.join(_KINDS)}")
    check(name, spec)


def _check_tensor(name: str, spec: Mapping[str, Any]) -> None:
    if spec["dtype"] not in DTYPES or set(spec) - {"dtype", "align"}:
        raise FormError(
            f"argument {name}: {spec!r} is no tensor; known are {', '.join(sorted(DTYPES))}"
        )
    if spec.get("align", 16) not in ALIGNMENTS:
        raise FormError(f"argument {name}: align is 1, 2, 4, 8 or 16")


def _check_scalar(kind: type | tuple[type, ...]) -> Any:
    def check(name: str, spec: Mapping[str, Any]) -> None:
        value = next(iter(spec.values()))
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise FormError(f"argument {name}: {spec!r}")

    return check


def _check_tuple(name: str, spec: Mapping[str, Any]) -> None:
    for item in _list(name, spec["tuple"]):
        check_argument(name, item)


def _check_constexpr(name: str, spec: Mapping[str, Any]) -> None:
    _check_constant(name, spec["constexpr"])


def _check_constant(name: str, value: Any) -> None:
    if value is None or isinstance(value, _SCALARS):
        return
    if not isinstance(value, dict) or len(value) != 1:
        raise FormError(f"constant {name}: {value!r}")
    kind, held = next(iter(value.items()))
    if kind == "tuple":
        for item in _list(name, held):
            _check_constant(name, item)
    elif kind == "dtype":
        if held not in LANGUAGE_DTYPES:
            raise FormError(f"constant {name}: {held!r} is no dtype of the language")
    elif kind == "function":
        _check_name(held)
    elif kind != "unknown":
        raise FormError(f"constant {name}: {value!r}")


def _check_descriptor(name: str, spec: Mapping[str, Any]) -> None:
    held = spec["descriptor"]
    if not isinstance(held, dict) or set(held) - set(_LATER) != {
        "dtype",
        "align",
        "shape",
        "strides",
        "block",
    }:
        raise FormError(f"argument {name}: a descriptor has dtype, align, shape, strides and block")
    for later, values in _LATER.items():
        if held.get(later, values[0]) not in values:
            raise FormError(f"argument {name}: {later} of a descriptor is one of {values}")
    _check_tensor(name, {"dtype": held["dtype"], "align": held["align"]})
    for part in ("shape", "strides", "block"):
        if not all(type(extent) is int for extent in _list(part, held[part])):
            raise FormError(f"argument {name}: {part} of a descriptor are numbers")


def _check_config(config: Any) -> None:
    if not isinstance(config, dict) or not isinstance(config.get("kwargs", {}), dict):
        raise FormError("a configuration is {kwargs: {…}, num_warps: …}")
    for name, value in config.get("kwargs", {}).items():
        _check_name(name)
        _check_constant(name, value)
    check_options({name: value for name, value in config.items() if name != "kwargs"})


def check_options(options: Any) -> None:
    """Raises FormError for an option that no release's compiler has, or that could name a file."""
    if not isinstance(options, dict):
        raise FormError("options are a mapping")
    for name, value in options.items():
        if name not in OPTIONS:
            raise FormError(f"option {name!r} is unknown; known are {', '.join(sorted(OPTIONS))}")
        if value is not None and not isinstance(value, _SCALARS):
            _check_constant(name, value)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
        raise FormError(f"{name!r} is no name of an argument")


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FormError(f"{name} is a list")
    return value


# What later releases added to a descriptor.
_LATER: Mapping[str, tuple[Any, ...]] = {
    "padding": ("zero", "nan"),
    "round_f32_to_tf32": (False, True),
}
_KINDS: Mapping[str, Any] = {
    "dtype": _check_tensor,
    "int": _check_scalar(int),
    "float": _check_scalar((int, float)),
    "bool": _check_scalar(bool),
    "tuple": _check_tuple,
    "constexpr": _check_constexpr,
    "descriptor": _check_descriptor,
    "unknown": _check_scalar(str),
}
