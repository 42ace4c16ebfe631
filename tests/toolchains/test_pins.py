"""The pins of torch on Triton, and the specifiers advised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.toolchains import by_torch, index, wheels
from flacheck.toolchains import torch_pins as pins

RELEASES = [
    "3.0.0",
    "3.1.0",
    "3.2.0",
    "3.3.0",
    "3.3.1",
    "3.4.0",
    "3.5.0",
    "3.5.1",
    "3.6.0",
    "3.7.0",
    "3.7.1",
    "3.8.0",
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    "triton, torch",
    [
        ("3.2.0", ["2.6.0"]),
        ("3.7.1", ["2.12.1", "2.13.0"]),
        ("3.8.4", ["2.14.0", "2.14.1"]),
        ("3.6.0+local.0123abcd", ["2.10.0", "2.11.0"]),
        ("4.0.0", []),
    ],
)
def test_a_triton_leads_to_the_torch_releases_that_admit_it(triton: str, torch: list[str]) -> None:
    """Compatible-release pins (~=3.8.0) are read as pip reads them."""
    assert pins.torch_for(triton) == torch


def test_a_torch_leads_to_its_specifier() -> None:
    """The specifier is that of torch's metadata, without releases older than flacheck's first."""
    assert pins.pins()["2.6.0"] == "==3.2.0"
    assert pins.pins()["2.13.0"] == "==3.7.1"
    assert "1.13.0" not in pins.pins()


@pytest.mark.parametrize(
    "good, text",
    [
        (RELEASES[5:11], "triton>=3.4.0,<3.8"),
        (RELEASES[5:], "triton>=3.4.0,<3.9"),
        (["3.3.0", "3.4.0", "3.5.0"], "triton>=3.4.0,<3.5.1"),
        (["3.3.0"], "triton==3.3.0"),
        (["3.4.0+local.0123abcd"], "triton==3.4.0"),
        ([], None),
    ],
)
def test_a_specifier_reads_as_a_person_would_write_it(good: list[str], text: str | None) -> None:
    """The newest good releases without another between them; nothing for nothing."""
    assert pins.specifier("triton", good, RELEASES) == text


@st.composite
def releases(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Good and known releases, with patch and post versions between."""
    part = st.integers(0, 4)
    version = st.builds(
        "{}.{}.{}{}".format, st.integers(2, 4), part, part, st.sampled_from(["", ".post1"])
    )
    published = draw(st.lists(version, unique=True, min_size=1, max_size=12))
    return draw(st.lists(st.sampled_from(published), unique=True)), published


@given(releases())
def test_a_specifier_admits_good_releases_alone(lists: tuple[list[str], list[str]]) -> None:
    """The specifier admits the newest good release, no bad one, and is bounded above."""
    good, all_releases = lists
    text = pins.specifier("triton", good, all_releases)
    if not good:
        assert text is None
        return
    admits = Requirement(text or "").specifier
    assert max(good, key=Version) in admits
    assert {v for v in all_releases if v in admits} <= set(good)
    assert any(part.operator in ("<", "==") for part in admits)
    assert Version("99.0") not in admits


def _report(requires: list[str]) -> str:
    install = [{"metadata": {"name": "torch", "requires_dist": requires}}]
    return "WARNING: something\n" + json.dumps({"version": "1", "install": install}, indent=2)


@pytest.mark.slow
def test_a_refresh_learns_newer_releases_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only releases newer than the shipped table are looked up, and the result is stored."""
    requests: list[str] = []

    def run(command: list[str], what: str, environment: object) -> tuple[int, str]:
        requests.append(what)
        return 0, _report(["filelock", "triton~=4.0.0; platform_system == 'Linux'"])

    monkeypatch.setattr(index, "available", lambda *_: [Version("2.6.0"), Version("2.99.0")])
    monkeypatch.setattr(wheels, "run", run)
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])
    pins.refresh()
    pins.refresh()
    assert requests == ["torch 2.99.0"]
    assert pins.torch_for("4.0.1") == ["2.99.0"]


def test_a_refresh_offline_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped table stays in force."""

    def unreachable(*_: object) -> list[Version]:
        raise wheels.Offline("no network")

    monkeypatch.setattr(index, "available", unreachable)
    pins.refresh()
    assert pins.pins()["2.15.0"] == "~=3.9.0"


def test_an_index_that_did_not_answer_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failed look-up does not count as the day's; an explicit request does not wait."""
    answers: list[bool] = []

    def available(*_: object) -> list[Version]:
        answers.append(bool(answers))
        if not answers[-1]:
            raise wheels.Offline("no network")
        return [Version("2.6.0")]

    monkeypatch.setattr(index, "available", available)
    pins.refresh()
    assert not pins.is_complete()
    pins.refresh()
    assert answers == [False]
    with pytest.raises(UsageError, match=r"no release of torch matches ==2\.99\.\*"):
        by_torch.releases(SpecifierSet("==2.99.*"))
    assert answers == [False, True]
    assert pins.is_complete()


def test_a_torch_that_only_the_index_could_know_is_unknown_while_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exit code is 3, since the index decides whether the release exists."""

    def unreachable(*_: object) -> list[Version]:
        raise wheels.Offline("no network")

    monkeypatch.setattr(index, "available", unreachable)
    with pytest.raises(ToolchainError, match="table has no release of torch") as error:
        by_torch.releases(SpecifierSet("==2.99.*"))
    assert error.value.exit_code == 3


@pytest.mark.slow
def test_a_release_without_triton_in_its_metadata_teaches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A CPU build names no Triton, and must not hide the pin of the CUDA build."""
    monkeypatch.setattr(index, "available", lambda *_: [Version("2.99.0")])
    monkeypatch.setattr(wheels, "run", lambda *_: (0, _report(["filelock"])))
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])
    pins.refresh()
    assert "2.99.0" not in pins.pins()


@pytest.mark.network
@pytest.mark.slow
def test_the_shipped_table_is_what_the_index_says() -> None:
    """Two rows read again from the releases' metadata."""
    assert pins.look_up("2.6.0") == pins.pins()["2.6.0"]
    assert pins.look_up("2.15.0") == pins.pins()["2.15.0"]
