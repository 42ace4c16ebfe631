"""Kernels and where they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flacheck.model.kernel import (
    Corpus,
    Cut,
    Imported,
    Kernel,
    Origin,
    Stubbed,
    origin_from_json,
    origin_to_json,
)


@pytest.mark.parametrize(
    ("origin", "plain", "how"),
    [
        (Corpus("retention", "fwd"), {"corpus": "retention", "name": "fwd"}, "corpus"),
        (Imported("m", "k"), {"import": "m", "qualname": "k"}, "import"),
        (Imported("m"), {"import": "m"}, "import"),
        (Stubbed("m", "k"), {"module": "m", "qualname": "k"}, "stub"),
        (Cut("x = 1", "k"), {"source": "x = 1", "qualname": "k"}, "cut"),
        (
            Cut("x = 1", "k", made_up=True),
            {"source": "x = 1", "qualname": "k", "made_up": True},
            "cut",
        ),
    ],
)
def test_an_origin_travels_as_workers_and_stores_read_it(
    origin: Origin, plain: dict[str, Any], how: str
) -> None:
    """The JSON of an origin is that of existing stores."""
    assert origin_to_json(origin) == plain
    assert origin_from_json(plain) == origin
    assert origin.how == how


def test_an_origin_of_no_known_kind_is_refused() -> None:
    """An unknown origin is an error."""
    with pytest.raises(ValueError, match="no origin of a kernel"):
        origin_from_json({"path": "/etc/passwd"})


def test_a_kernel_says_what_its_worker_needs() -> None:
    """A kernel's origin decides its worker's packages."""
    kernel = Kernel("m:k", "p==1", "0", Imported("m", "k", made_up=True))
    assert kernel.is_of_package
    assert kernel.is_imported
    assert kernel.is_made_up
    other = replace(kernel, origin=Stubbed("m", "k"))
    assert other.is_of_package
    assert not other.is_imported
    assert not other.is_made_up
    assert not replace(kernel, origin=Corpus("f", "k")).is_of_package
    assert Kernel.from_json(kernel.to_json()) == kernel
