"""The package of a gate: a version or a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capabilities.gate.requested_package import RequestedPackage
from flacheck.errors import UsageError
from flacheck.source.packages import checkouts


def test_what_names_no_package_is_an_error() -> None:
    """A range is not an exact version."""
    with pytest.raises(UsageError, match="names no package"):
        RequestedPackage.of("fla>=0.4")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "My.Shop"\n')
    return tmp_path


def test_a_checkout_is_its_name_in_whatever_state(checkout: Path) -> None:
    """A version built from other files is the same package, but changed."""
    requested_package = RequestedPackage.of(str(checkout))
    state = checkouts.digest(checkout)[:8]
    for version, has_changed in ((f"1.0+h{state}", False), ("1.0+h00000000", True), ("1.0", True)):
        assert requested_package.is_about(f"my-shop=={version}")
        assert requested_package.has_changed_since(f"my-shop=={version}") is has_changed
    assert not requested_package.is_about(f"shop==1.0+h{state}")


@pytest.mark.parametrize("text", ["", "[project]\n", "[project]\nname = 3\n", "project = 1\n"])
def test_a_checkout_that_does_not_say_its_name_is_an_error(checkout: Path, text: str) -> None:
    """A project file without a literal name is an error."""
    (checkout / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=r"there is no name in \[project\]"):
        RequestedPackage.of(str(checkout))
