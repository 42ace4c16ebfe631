"""Exponentials of sums over a sequence that are kept in float16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


class Seen:
    """Call functions as a followed program does, and keep the overflows."""

    def __init__(self) -> None:
        from flacheck.guest.dtypes.exponentials import Exponentials

        self.exponentials = Exponentials()
        self.found: list[dict[str, Any]] = []

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if result.dtype == torch.float16:
            said = self.exponentials.check(result, function, args, kwargs)
            self.found += [said] if said else []
        return result


def start() -> Any:
    return torch.randn(2, 256, 4).half()


OVERFLOWING: dict[str, tuple[Callable[[Seen, Any], Any], float]] = {
    "of running sums": (lambda see, x: see(torch.exp, see(torch.cumsum, x, 1)), 0.0625),
    "a method": (lambda see, x: see(torch.Tensor.exp, see(torch.Tensor.sum, x, dim=1)), 0.0625),
    "to base two": (lambda see, x: see(torch.exp2, see(torch.cumsum, x, dim=-2)), 0.0625),
    "growth instead of decay": (
        lambda see, x: see(torch.exp, see(torch.neg, see(torch.cumsum, see(F.logsigmoid, x), 1))),
        0.0,
    ),
    "seen from another side": (
        lambda see, x: see(torch.exp, see(torch.transpose, see(torch.cumsum, x, 1), 1, 2)),
        0.0625,
    ),
}
HARMLESS: dict[str, Callable[[Seen, Any], Any]] = {
    "decay": lambda see, x: see(torch.exp, see(torch.cumsum, see(F.logsigmoid, x), 1)),
    "of one value": lambda see, x: see(torch.exp, x),
    "of a mean": lambda see, x: see(torch.exp, see(torch.mean, x, 1)),
    "of a multiple": lambda see, x: see(torch.exp, see(torch.mul, x, 10)),
    "a few terms": lambda see, x: see(torch.exp, see(torch.sum, x, -1)),
    "no exponential": lambda see, x: see(torch.sigmoid, see(torch.cumsum, x, 1)),
    "beside another tensor": lambda see, x: see(
        torch.exp, see(torch.sub, see(torch.cumsum, x, 1), x.amax())
    ),
    "in float32": lambda see, x: see(torch.exp, see(torch.cumsum, x.float(), 1)),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_an_exponential_of_a_sum_overflows(name: str) -> None:
    """The overflow is found in every spelling, with the element value that causes it."""
    write, number = OVERFLOWING[name]
    see = Seen()
    write(see, start())
    (said,) = see.found
    assert (said["constant"], said["terms"]) == (number, 256)
    assert said["shown"] == f"infinite when every element that goes in is {number:g}"


@pytest.mark.parametrize("name", HARMLESS)
def test_what_stays_finite_is_no_finding(name: str) -> None:
    """The result is finite for plain numbers, or its overflow cannot be shown."""
    see = Seen()
    HARMLESS[name](see, start())
    assert see.found == []


def test_what_was_written_into_is_not_judged() -> None:
    """The content of such a tensor has another source than the call that made it."""
    see = Seen()
    sums = see(torch.cumsum, start(), 1)
    sums.zero_()
    see.exponentials.forget(sums)
    see(torch.exp, sums)
    assert see.found == []
