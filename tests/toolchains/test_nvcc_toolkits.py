"""CUDA toolkits: the releases, their targets, and toolkits in folders."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from packaging.version import Version

from flacheck import toolchains
from flacheck.engine.executors import LocalPool
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import ToolchainError, UsageError
from flacheck.tables import table, targets
from flacheck.toolchains import host_compilers, identity, nvcc_releases
from flacheck.toolchains.nvcc import Nvcc
from tests.made_toolchains import identities
from tests.made_toolkit import toolkit


@pytest.mark.parametrize(
    ("spec", "versions"),
    [
        ("nvcc==13.1", ["nvcc==13.1.115"]),
        ("nvcc==13.1.*", ["nvcc==13.1.115"]),
        ("nvcc==13.1.80", ["nvcc==13.1.80"]),
        ("nvcc>=13.0,<13.2", ["nvcc==13.0.88", "nvcc==13.1.115"]),
    ],
)
def test_a_minor_version_stands_for_its_newest_patch_release(
    spec: str, versions: list[str]
) -> None:
    """An older patch release is used for an exact version only."""
    assert identities(spec) == versions


def test_every_release_names_what_belongs_to_it() -> None:
    """Five distributions, each at an exact version."""
    for text in table("nvcc_releases")["releases"]:
        texts = nvcc_releases.requirements(Version(text))
        assert len(texts) == 5 and all("==" in each and "*" not in each for each in texts)


def test_targets_are_refused_with_a_reason() -> None:
    """An architecture that is gone, another maker's, and features that no GPU has."""
    (choice,) = toolchains.resolve(["nvcc==13.0.88"]).choices
    assert [
        choice.skip_reason(name) for name in ("sm80", "sm90a", "sm100a", "sm120a", "sm100f")
    ] == ([None] * 5)
    assert choice.skip_reason("sm70") == "nvcc 13.0.88 does not support sm70"
    assert "NVIDIA's GPUs only" in str(choice.skip_reason("gfx942"))
    assert "no features" in str(choice.skip_reason("sm80a"))


def test_targets_are_told_apart_by_their_features() -> None:
    """For Triton sm90a is sm90; for nvcc it is another target with the same limits."""
    assert toolchains.family_of("nvcc==13.0.88").target("sm_90A") == "sm90a"
    assert toolchains.family_of("triton==3.6.0").target("sm90a") == "sm90"
    assert targets.find("sm90a") is targets.find("sm90")
    assert targets.spellings("h100") == {"sm90"}


def test_a_toolkit_in_a_folder_says_its_own_version_and_targets(tmp_path: Path) -> None:
    """The identity of the toolkit depends on its files."""
    root = toolkit(tmp_path, "13.9.7", codes=("sm_90",))
    (choice,) = toolchains.resolve([str(root)]).choices
    assert choice.identity.startswith("nvcc==13.9.7+local.")
    assert choice.skip_reason("sm90a") is None and choice.skip_reason("sm80") is not None
    (root / "bin" / "ptxas").write_text("another assembler")
    assert identities(str(root)) != [choice.identity]


def test_cuda_home_is_the_installed_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA_HOME comes before an nvcc on the PATH."""
    root = toolkit(tmp_path)
    monkeypatch.setenv("CUDA_HOME", str(root))
    assert identities("nvcc==installed") == identities(str(root))


def test_no_toolkit_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message proposes CUDA_HOME and a release."""
    monkeypatch.setattr("flacheck.toolchains.nvcc._find_system_roots", lambda: [tmp_path])
    with pytest.raises(ToolchainError, match="CUDA_HOME"):
        toolchains.resolve(["nvcc==installed"])


def test_compilers_of_two_languages_are_no_one_question() -> None:
    """Compilers of kernels and of units cannot be combined for one package."""
    assert toolchains.language_of(["nvcc==13.0.*", "nvcc==13.1"]) == "cuda"
    assert toolchains.language_of([]) == "triton"
    for specs in (["3.6.0", "nvcc==13.0"], ["3.6.0,nvcc==13.0"]):
        with pytest.raises(UsageError, match="different languages"):
            toolchains.language_of(specs)


def test_a_units_options_are_completed_and_checked() -> None:
    """The host compiler's exact version is part of a cell's key."""
    assert Nvcc().options({}) == {
        "std": "c++17",
        "host": host_compilers.identity("g++") or "g++",
    }
    with pytest.raises(UsageError, match="num_warps"):
        Nvcc().options({"num_warps": 4})
    with pytest.raises(UsageError, match=r"c\+\+3"):
        Nvcc().options({"std": "c++3"})
    with pytest.raises(UsageError, match="host compiler"):
        Nvcc().options({"host": "/tmp/evil"})


def test_a_file_that_differs_from_its_wheel_is_found(tmp_path: Path) -> None:
    """Every file in a wheel's record is checked, headers included."""
    info = tmp_path / "kit-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: kit\nVersion: 1\n")
    header = tmp_path / "kit.h"
    header.write_text("int a;")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"int a;").digest()).decode().rstrip("=")
    (info / "RECORD").write_text(f"kit.h,sha256={digest},6\nkit-1.dist-info/METADATA,,\n")
    assert identity.find_damaged_file(tmp_path) is None
    header.write_text("int b;")
    assert identity.find_damaged_file(tmp_path) == "kit.h"


def test_no_more_units_run_than_fit_into_memory() -> None:
    """Two units of 8 GB fit on a machine of 20 GB; a single unit always runs."""
    pool = LocalPool(4, lambda task: 60.0, memory_mb=20_000)
    kind = WorkerKind("nvcc", {}, needs_mb=8_000)
    slots = pool._slots

    class Busy:
        def __init__(self, kind: WorkerKind) -> None:
            self.kind = kind

    assert pool._fits(kind, slots[0])
    slots[0].worker = Busy(kind)  # type: ignore[assignment]
    assert pool._fits(kind, slots[1])
    slots[1].worker = Busy(kind)  # type: ignore[assignment]
    assert not pool._fits(kind, slots[2])
    assert pool._fits(WorkerKind("triton", {}), slots[2])
    assert LocalPool(1, lambda task: 60.0, memory_mb=100)._fits(kind, slots[3])
