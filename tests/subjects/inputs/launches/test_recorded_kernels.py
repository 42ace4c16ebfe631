"""The source of a recorded launch's compile: an import of its package, else its cut text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flacheck.errors import UsageError
from flacheck.model import Cut, Imported, Launch, Stubbed
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs import replay
from flacheck.subjects.inputs.launches import RecordedLaunch

SPEC = "shop==1.0"
PACKAGE = Package("shop", "1.0", "/nowhere", "0", {})
FILE = Path("l.jsonl")


def launch_of(kernel: str = "shop.ops:k", **changes: Any) -> RecordedLaunch:
    """A launch of a package's kernel that was cut out."""
    plain: dict[str, Any] = {
        "id": kernel,
        "kernel": kernel,
        "qualname": "k",
        "launch": Launch({"x": {"dtype": "bf16", "align": 16}}, ("B",)),
        "package": SPEC,
        "text": "import triton",
        "heuristics": {"B": {"constexpr": 8}},
    }
    return RecordedLaunch(**{**plain, **changes})


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the packages that are requested; none is installed."""
    specs: list[str] = []

    def provide(spec: str) -> Package:
        specs.append(spec)
        return PACKAGE

    monkeypatch.setattr(replay, "provide_package", provide)
    return specs


def torch_is(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("/torch") if there else None
    monkeypatch.setattr(replay, "torch_folder", lambda: folder)


def origins(entries: list[RecordedLaunch], packages: dict[str, Package]) -> list[object]:
    return [source.kernel.origin for source in replay.sources(entries, packages)]


def test_a_kernel_without_a_source_needs_the_users_word() -> None:
    """The message names the kernels and the option to use."""
    entries = [launch_of(f"shop.ops:k{n}", text=None) for n in range(6)]
    with pytest.raises(UsageError) as caught:
        replay.provide_packages(FILE, entries, trust=False)
    message = (
        "l.jsonl: 6 kernels have no source (shop.ops:k0, shop.ops:k1, shop.ops:k2, shop.ops:k3)"
    )
    assert str(caught.value).startswith(message)
    assert "--trust" in str(caught.value)


def test_without_the_users_word_no_package_is_installed(requests: list[str]) -> None:
    """The cuts are enough."""
    assert replay.provide_packages(FILE, [launch_of()], trust=False) == {}
    assert requests == []


def test_without_torch_only_kernels_without_a_source_need_their_packages(
    requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If torch is installed, an import is preferred to a cut."""
    entries = [launch_of(), launch_of("mill.ops:k", package="mill==2.0", text=None)]
    torch_is(False, monkeypatch)
    replay.provide_packages(FILE, entries, trust=True)
    assert requests == ["mill==2.0"]
    requests.clear()
    torch_is(True, monkeypatch)
    replay.provide_packages(FILE, entries, trust=True)
    assert requests == ["mill==2.0", SPEC]


def test_a_kernel_is_imported_beside_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is cut out of its file where its package is missing or it has no name to import."""
    torch_is(True, monkeypatch)
    text = "import triton"
    assert origins([launch_of()], {SPEC: PACKAGE}) == [Imported("shop.ops", "k")]
    assert origins([launch_of()], {}) == [Cut(text, "k")]
    local = launch_of("shop.ops:f.<locals>.k")
    assert origins([local], {SPEC: PACKAGE}) == [Cut(text, "k")]


def test_without_torch_a_cut_comes_before_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in is used only where no cut is possible."""
    torch_is(False, monkeypatch)
    assert origins([launch_of()], {SPEC: PACKAGE}) == [Cut("import triton", "k")]
    assert origins([launch_of(text=None)], {SPEC: PACKAGE}) == [Stubbed("shop.ops", "k")]


def test_only_an_import_has_decorators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch is recorded above its decorators and compiled below them."""
    torch_is(True, monkeypatch)
    (plain,) = replay.sources([launch_of()], {SPEC: PACKAGE})
    (source,) = replay.decorated_sources(
        [launch_of(), launch_of("other:k", package=None)], {SPEC: PACKAGE}
    )
    assert plain.launches[0].args["B"] == {"constexpr": 8}
    assert "B" not in source.launches[0].args
    assert source.launches[0].omitted == ("B",)
    assert source.launches[0].heuristics == {"B": {"constexpr": 8}}


def test_a_made_up_launch_stays_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark does not depend on the origin of the kernel."""
    torch_is(True, monkeypatch)
    made_up = launch_of(made_up=True)
    assert origins([made_up], {SPEC: PACKAGE}) == [Imported("shop.ops", "k", made_up=True)]
    assert origins([made_up], {}) == [Cut("import triton", "k", made_up=True)]
