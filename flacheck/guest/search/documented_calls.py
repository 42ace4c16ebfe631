"""Calls in the examples of docstrings (`>>> y = scan(x)`), as operators without arguments."""

import doctest
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ..engine.outcomes import outcome_of
from ..inference.operators import EXAMPLE, Operator

_PARSER = doctest.DocTestParser()


def documented_calls(operators: Iterable[Operator]) -> Iterator[Operator]:
    """Yield the example in each operator's docstring as an operator."""
    texts: set[str] = set()
    for operator in operators:
        for documented in (operator.call, operator.source):
            text = inspect.getdoc(documented) or ""
            if ">>>" in text and text not in texts:
                texts.add(text)
                yield _as_operator(operator, text)


def _as_operator(operator: Operator, text: str) -> Operator:
    def run_example() -> list[Any]:
        """Return the values of the example's variables; statements that fail are left out."""
        scope = dict(vars(sys.modules[operator.module]))
        names = set(scope)
        errors = []
        for example in _statements(text):
            _, error = outcome_of(functools.partial(exec, example, scope))
            if error is not None:
                errors.append(error)
        values = [value for name, value in scope.items() if name not in names]
        if errors and not values:
            raise errors[0]
        return values

    return Operator(
        name=operator.name,
        call=run_example,
        kind=EXAMPLE,
        outer=True,
        kernels=operator.kernels,
        parameters=(),
        source=run_example,
    )


def _statements(text: str) -> list[str]:
    """Return the statements of a docstring's examples; none if they cannot be told apart."""
    try:
        return [example.source for example in _PARSER.get_examples(text)]
    except ValueError:
        return []
