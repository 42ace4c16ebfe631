"""The parts of a script that launches a kernel on a GPU and compares its result with a right one.

Its inputs are those of `guest/card`: the same random floats, and the integers of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flacheck.capabilities.repro.kernel.expression_types import NAMES
from flacheck.model import Record

WORDS = "differs from the right result"
# The driver's own words for a launch that ends the process's use of the GPU.
_FAULT = "illegal memory access"
# Elements in a script: a reader compares no more.
_MOST_PLACES = 16
# The numbers of the runner: the length of its blocks, and the dtypes that it fills.
_BLOCK = 65_521
_RANDOM = ("fp64", "fp32", "fp16", "bf16", "fp8e4nv", "fp8e5")
_SIGNED = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
_FORMULAS = {
    "normal": "draw * 0.5",
    "negative": "-abs(draw) * 0.5",
    "positive": "abs(draw) * 0.5",
    "small": "draw * 0.02",
}
# bf16 inputs are rounded towards zero.
_CASTS = {"bf16": ".float().view(torch.int32).bitwise_and(-65536).view(torch.float32)"}
_INPUTS = """\
import random


def random_floats(number, size, dtype, cast=lambda block: block):
    source = random.Random({seed})
    draws = [source.gauss(0.0, 1.0) for _ in range({block})]
    block = cast(torch.tensor([{formula} for draw in draws], dtype=torch.float64)).to(dtype)
    count = size // block.element_size()
    return block.roll(-number * 10_007).repeat(-(-count // {block}))[:count].cuda()


grid = {grid}
storages = {{
{storages}}}
tensors = {{
{tensors}}}
{integers}
"""
_CHECK = """\
torch.cuda.synchronize()
places = {places}
right = {right}
result = storages[{number}]{view}[places]{convert}.tolist()
{bound}wrong = [
    each
    for each in zip(places, result, right)
    if each[1] != each[2]{condition}
]
if wrong:
    print(MESSAGE, "(element, result, right):", wrong)
"""


def parts(record: Record) -> tuple[str, str, str]:
    """Return the words that a script prints, the code that makes its inputs, and its check."""
    facts: Mapping[str, Any] = record.findings[0]["facts"]
    prepare = _inputs(facts, _used_tensors(record, facts))
    numbers = sorted(facts["samples"], key=lambda name: -len(facts["samples"][name]["places"]))
    if not numbers:
        return _FAULT, prepare, "torch.cuda.synchronize()\n"
    sample = facts["samples"][numbers[0]]
    step = -(-len(sample["places"]) // _MOST_PLACES)
    dtype = _dtype_of(facts, int(numbers[0]))
    convert, bound, condition = "", "", ""
    if dtype in _RANDOM:
        convert = ".double()"
        bound = "scale = (sum(value * value for value in right) / len(right)) ** 0.5\n"
        limit = f"{facts['tolerance']} * (scale + abs(each[2]))"
        condition = f" and not abs(each[1] - each[2]) <= {limit}"
    check = _CHECK.format(
        number=numbers[0],
        view=f".view({_torch_name(dtype)})",
        places=list(sample["places"][::step]),
        right=[_number(text, dtype) for text in sample["values"][facts["right_group"]][::step]],
        convert=convert,
        bound=bound,
        condition=condition,
    )
    return WORDS, prepare, check


def _number(text: str, dtype: str) -> float:
    """Return an element of a sample, which has integers without their sign."""
    if dtype in _RANDOM:
        return float.fromhex(text)
    number = int(text)
    bits = _SIGNED.get(dtype)
    if bits and number >> (bits - 1):
        number -= 1 << bits
    return number


def _used_tensors(record: Record, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors that the kernel of a record still takes, by their paths."""
    arguments = record.launch.args if record.launch else {}
    # A tensor of a tuple has the path "name[0]".
    return {
        path: tensor
        for path, tensor in facts["tensors"].items()
        if path.partition("[")[0] in arguments
    }


def _inputs(facts: Mapping[str, Any], used: Mapping[str, Any]) -> str:
    """Return the code that makes the memory of the tensors that a launch uses."""
    storages, tensors, integers = "", "", ""
    for number in sorted({each["storage"] for each in used.values()}):
        size = facts["storages"][number]
        dtype = _dtype_of(facts, number)
        name = _torch_name(dtype)
        if dtype in _RANDOM:
            cast = f", lambda block: block{_CASTS[dtype]}" if dtype in _CASTS else ""
            storages += f"    {number}: random_floats({number}, {size}, {name}{cast}),\n"
        else:
            zeros = f'torch.zeros({size}, dtype=torch.uint8, device="cuda")'
            storages += f"    {number}: {zeros}.view({name}),\n"
    for path, each in used.items():
        name = _torch_name(each["dtype"])
        place = f"({tuple(each['shape'])}, {tuple(each['strides'])}, {each['offset']})"
        storage = f"storages[{each['storage']}].view({name})"
        tensors += f'    "{path}": {storage}.as_strided{place},\n'
        # A storage without floats holds zeros.
        has_floats = _dtype_of(facts, each["storage"]) in _RANDOM
        is_written = each["values"] and (has_floats or any(each["values"]))
        if is_written and each["dtype"] not in _RANDOM:
            values = f"torch.tensor({list(each['values'])}, dtype={name})"
            integers += f'tensors["{path}"].copy_({values}.view({tuple(each["shape"])}))\n'
    return _INPUTS.format(
        seed=facts["seed"],
        block=_BLOCK,
        formula=_FORMULAS[facts["distribution"] or "normal"],
        grid=tuple(facts["grid"]),
        storages=storages,
        tensors=tensors,
        integers=integers,
    )


def _dtype_of(facts: Mapping[str, Any], number: int) -> str:
    """Return the dtype of a storage's elements: that of its first floats."""
    dtypes: list[str] = [
        each["dtype"] for each in facts["tensors"].values() if each["storage"] == number
    ]
    return next((dtype for dtype in dtypes if dtype in _RANDOM), (dtypes or ["u8"])[0])


def _torch_name(dtype: str) -> str:
    names = {"i1": "bool", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}
    return f"torch.{names.get(dtype) or NAMES[dtype]}"
