"""`flacheck check`: environments of real metadata, judged by the shipped results."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

import flacheck
from flacheck.errors import Exit
from flacheck.evidence.measured.comparison import FIELD
from flacheck.evidence.published import library
from flacheck.model import Purpose
from flacheck.model.answer import MOST_WORDS, VerdictWord
from flacheck.reports import environment, render
from flacheck.reports.document import Display
from flacheck.store import Store
from tests.evidence.measured.test_comparison import launch, measurement
from tests.schemas import validate_json
from tests.subjects.inputs.test_nearby import KERNELS, install

FLA = "flash-linear-attention"


@pytest.fixture(autouse=True, scope="module")
def decoded_once() -> Iterator[None]:
    """Decode each published file once; what it holds is frozen."""
    with pytest.MonkeyPatch.context() as changes:
        decode = functools.lru_cache(maxsize=32)(library.decode_place)
        changes.setattr(library, "decode_place", decode)
        yield


@pytest.fixture
def site(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty environment of a project, on a machine without a GPU."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", str(here))
    folder = here / ".venv" / "lib" / "python3.11" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def _install(site: Path, name: str, version: str, *needs: str) -> None:
    install(site, name, version, *needs, text="")


def _nvidia_smi(here: Path, line: str) -> None:
    """Put a program with the GPU's name, driver and compute capability into the PATH."""
    program = here / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{line}'\n")
    program.chmod(0o755)


def test_parts_that_belong_together_are_a_yes(site: Path) -> None:
    """The Triton that torch's own metadata requires fits."""
    _install(site, "torch", "2.12.1", "triton==3.7.1; platform_system == 'Linux'")
    _install(site, "triton", "3.7.1")
    result = flacheck.check(target="h100")
    assert result.answer == (
        "Yes: torch 2.12.1 and triton 3.7.1 belong together; no installed package has kernels"
    )
    assert (result.fits, result.command, result.exit_code()) == (True, "", Exit.OK)


ROCM = "https://download.pytorch.org/whl/rocm6.4"
NIGHTLY = "https://download.pytorch.org/whl/nightly/cu130"


@pytest.mark.parametrize(
    ("torch", "needs", "tritons", "command"),
    [
        ("2.12.1", "triton==3.7.1", {"triton": "3.5.1"}, "pip install triton==3.7.1"),
        ("2.12.1+cu130", "triton==3.7.1", {}, "pip install triton==3.7.1"),
        ("2.12.1+cu130", "triton==3.7.1", {"triton": "3.7.1"}, ""),
        ("2.12.1+cu130", "triton==3.7.1", {"triton-windows": "3.7.1.post2"}, ""),
        ("2.12.1+cpu", "numpy", {}, ""),
        (
            "2.9.1+rocm6.4",
            "pytorch-triton-rocm==3.5.1",
            {"triton": "3.5.1"},
            f"pip uninstall -y triton && pip install pytorch-triton-rocm==3.5.1 --index-url {ROCM}",
        ),
        (
            "2.16.0.dev20261120+cu130",
            "pytorch-triton==3.9.0+git9844da95",
            {"pytorch-triton": "3.8.0+git27664085"},
            f"pip install pytorch-triton==3.9.0+git9844da95 --index-url {NIGHTLY}",
        ),
        (
            "2.16.0.dev20261120+cu130",
            "pytorch-triton==3.9.0+git9844da95",
            {"pytorch-triton": "3.9.0+git9844da95"},
            "",
        ),
        (
            "2.12.1",
            "triton==3.7.1",
            {"triton": "3.7.1", "pytorch-triton": "3.8.0+git27664085"},
            "pip uninstall -y triton pytorch-triton && pip install triton==3.7.1",
        ),
    ],
)
def test_the_line_to_type_makes_torch_and_triton_fit(
    site: Path, torch: str, needs: str, tritons: dict[str, str], command: str
) -> None:
    """Builds of PyTorch's own indexes get their index; two builds in one folder are removed."""
    _install(site, "torch", torch, needs)
    for name, version in tritons.items():
        _install(site, name, version)
    result = flacheck.check(target="h100")
    assert (result.command, result.fits) == (command, not command)
    assert (result.verdict is VerdictWord.NO) == bool(command)
    assert (result.exit_code() is Exit.FINDINGS) == bool(command)
    validate_json("check", result.to_json())


@pytest.mark.parametrize(
    ("name", "version", "origin"),
    [
        ("torch", "2.10.0a0+b4e4ee81d3.nv25.12", "a build from NVIDIA's NGC containers"),
        ("torch", "2.16.0.dev20261120+cu130", "a nightly build of torch"),
        ("torch", "2.9.1+rocm6.4", "a build for AMD"),
        ("triton", "3.6.0+git9844da95", "a build of a commit"),
        ("triton-windows", "3.6.0.post26", "a fork for Windows"),
        ("pytorch-triton", "3.6.0+git9844da95", "PyTorch's build of a commit"),
        ("triton-rocm", "3.5.1", "PyTorch's build for AMD"),
        ("pytorch-triton-rocm", "3.5.1+gitbfeb0668", "PyTorch's build for AMD"),
        ("pytorch-triton-xpu", "3.5.0", "PyTorch's build for Intel"),
        ("triton-nightly", "3.8.0.post20261120", "a nightly build of Triton"),
        ("triton", "3.5.1+rocm7.1.0.gita272dfa8", "a build for AMD"),
        ("triton", "main", "a build of a commit"),
        ("torch", "2.9.1+rocm7.1.1.lw.git351ff442", "a build for AMD"),
        ("torch", "2.9.1+xpu", "a build for Intel"),
        ("torch", "2.12.0a0+git1234567", "a build of a commit"),
        ("torch", "local", "a build of a commit"),
    ],
)
def test_special_builds_are_named(site: Path, name: str, version: str, origin: str) -> None:
    """The answer says what is known of a build that is not a release."""
    _install(site, name, version)
    result = flacheck.check(target="h100")
    (build,) = filter(None, (result.torch, *result.tritons))
    assert build.origin.startswith(origin)
    assert any(point.text.startswith(f"{name} {version}: {origin}") for point in result.points)


def test_a_driver_older_than_the_build_of_torch_is_a_fault(site: Path, here: Path) -> None:
    """A build for CUDA 13 needs driver 580; GPU and driver are those of nvidia-smi."""
    _nvidia_smi(here, "NVIDIA H100 80GB HBM3, 535.104.05, 9.0")
    _install(site, "torch", "2.12.1", "triton==3.7.1", "nvidia-cublas==13.1.0.3")
    _install(site, "triton", "3.7.1")
    result = flacheck.check()
    assert (result.gpu, result.driver, result.target) == (
        "NVIDIA H100 80GB HBM3",
        "535.104.05",
        "sm90",
    )
    assert result.answer == (
        "No: the driver 535.104.05 is too old for torch 2.12.1, a build for CUDA 13"
    )
    assert result.points[0].remedy.startswith("install a driver 580 or newer")
    # No compiler is on this PATH.
    (launcher,) = [each for each in result.machine if each.name.startswith("compiler")]
    assert not launcher.ok


def test_a_cache_that_cannot_be_written_is_a_restriction(
    site: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the system's is tried, since root may write everywhere."""
    _nvidia_smi(here, "NVIDIA H200, 580.159.04, 9.0")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/proc/nowhere")
    _install(site, "torch", "2.12.1", "triton==3.7.1")
    _install(site, "triton", "3.7.1")
    (cache,) = [each for each in flacheck.check().machine if each.name == "Triton's cache"]
    assert not cache.ok
    assert cache.detail.startswith("/proc/nowhere: ")


def test_a_pin_of_the_project_that_excludes_the_installed_release_is_a_point(
    site: Path, here: Path
) -> None:
    """The point has the file and the line."""
    _install(site, "torch", "2.12.1", "triton==3.7.1")
    _install(site, "triton", "3.7.1")
    (here / "requirements.txt").write_text("numpy\ntriton<3.7\n")
    result = flacheck.check(target="h100")
    assert result.points[0].text == (
        "requirements.txt:2 requires triton<3.7, and triton 3.7.1 is installed"
    )
    assert result.answer.startswith("Yes, but a pin excludes what is installed: ")
    assert result.exit_code() is Exit.FINDINGS


def test_failures_of_an_installed_package_have_operator_dtype_and_first_release(
    site: Path,
) -> None:
    """A failure in bf16 or fp16 decides, one in fp32 alone is listed."""
    _install(site, "torch", "2.12.1", "triton==3.7.1")
    _install(site, "triton", "3.7.1")
    install(site, "flash-linear-attention", "0.4.2", "torch", text=KERNELS)
    result = flacheck.check(target="h100")
    (package,) = result.packages
    assert package.about == f"{FLA}==0.4.2"
    assert [(each.operator, each.since, each.decides) for each in package.failures] == [
        ("parallel_path_attn", "triton==3.6.0", True),
        ("parallel_path_attn in fp32", "triton==3.5.1", False),
    ]
    assert result.answer.startswith(
        "No: under torch 2.12.1 and triton 3.7.1 on sm90 1 kernel fails"
    )
    assert result.best is not None and result.best.triton == "3.8.0"
    assert result.exit_code() is Exit.FINDINGS


def test_a_file_of_pins_is_checked_without_an_environment(site: Path, here: Path) -> None:
    """torch brings its Triton; the pinned package is judged."""
    file = here / "pins.txt"
    file.write_text(f"torch==2.15.0\n{FLA}==0.6.0\n")
    result = flacheck.check(requirements=file, target="h100")
    assert [each.version for each in result.tritons] == ["3.9.0"]
    assert [each.about for each in result.packages] == [f"{FLA}==0.6.0"]
    assert result.verdict is VerdictWord.YES_BUT


def test_a_failure_that_models_do_not_meet_has_the_exit_code_of_a_gate(site: Path) -> None:
    """`check` and `gate` say "Yes, but" with exit code 1 about the same release."""
    checked = flacheck.check(package=f"{FLA}==0.6.0", triton="3.9.0", target="h100")
    gate = flacheck.gate(package=f"{FLA}==0.6.0", triton="3.9.0", target="h100")
    verdicts = (checked.verdict, gate.in_words.verdict)
    assert verdicts == (VerdictWord.YES_BUT, VerdictWord.YES_BUT)
    assert checked.exit_code() is gate.exit_code() is Exit.FINDINGS


@pytest.mark.parametrize(
    ("builds", "answer"),
    [
        (
            {"torch": "2.10.0a0+b4e4ee81d3.nv25.12", "triton": "3.5.0+gitf4e7c1c"},
            "Yes: torch 2.10.0a0+b4e4ee81d3.nv25.12 and triton 3.5.0+gitf4e7c1c do not contradict "
            "each other; no installed package has kernels",
        ),
        ({"triton": "3.9.0"}, "Not known: no installed package has kernels (triton 3.9.0)"),
        ({}, "Not known: no installed package has kernels (no torch and no Triton)"),
    ],
)
def test_a_pair_without_a_requirement_is_not_said_to_belong_together(
    site: Path, builds: dict[str, str], answer: str
) -> None:
    """NVIDIA's containers and builds of one's own name no Triton."""
    for name, version in builds.items():
        _install(site, name, version)
    assert flacheck.check(target="h100").answer == answer


def test_without_a_gpu_nothing_is_known_of_a_package(site: Path) -> None:
    """The answer names the missing GPU, not missing results."""
    result = flacheck.check(package=f"{FLA}==0.6.0", triton="3.9.0")
    assert result.answer == (f"Not known: no GPU was found here, and {FLA}==0.6.0 depends on it")
    assert result.next == (f"flacheck check --package {FLA}==0.6.0 --target h100",)
    assert result.exit_code() is Exit.INCOMPLETE


def test_what_was_measured_slower_on_this_gpu_restricts_a_yes(here: Path, site: Path) -> None:
    """The oldest slower release of the series stands in the point; another GPU says nothing."""
    _nvidia_smi(here, "NVIDIA H200, 580.159.04, 9.0")
    _install(site, "torch", "2.15.0", "triton==3.9.0")
    _install(site, "triton", "3.9.0")
    about = "liger-kernel==0.8.5"
    times = {"3.5.1": 10.0, "3.6.0": 18.0, "3.9.0": 19.0}
    own = {f"triton=={release}": time for release, time in times.items()}
    with Store.open(here / ".flacheck") as store:
        for card in ("NVIDIA H200", "NVIDIA H100 80GB HBM3"):
            slow = launch("hgrn" if card == "NVIDIA H200" else "gla", own)
            document = measurement(structs.replace(slow, package=about), card=card)
            run = store.begin_run({}, about, purpose=Purpose.MEASURE)
            store.finish_run(run, {FIELD: document.to_json()})
    result = flacheck.check(package=about)
    (package,) = result.packages
    assert package.measured_on == ("NVIDIA H200",)
    assert [(each.operator, each.ratio, each.since) for each in package.slower] == [
        ("hgrn", 1.9, "triton==3.6.0")
    ]
    texts = [point.text for point in result.points]
    assert "slower than under Triton 3.5.1 on an H200: hgrn 1.90 since 3.6.0" in texts
    assert not any("measure" in command for command in result.next)
    page = "".join(render("markdown", environment.report(result), Display()))
    assert "not measured" not in page


def test_what_was_not_measured_is_said(here: Path, site: Path) -> None:
    """The next commands measure it on the GPU that is here."""
    about = "liger-kernel==0.8.5"
    _nvidia_smi(here, "NVIDIA H200, 580.159.04, 9.0")
    result = flacheck.check(package=about)
    assert result.packages[0].measured_on == ()
    _install(site, "triton", "3.9.0")
    result = flacheck.check(package=about)
    page = "".join(render("markdown", environment.report(result), Display()))
    assert f"Speed on NVIDIA H200: not measured for {about}" in page
    assert result.next[-1] == f"flacheck measure --package {about} --triton 3.8.0,3.9.0"


def test_a_package_without_results_is_not_known_with_the_command_that_compiles_it(
    site: Path,
) -> None:
    """The exit code is that of a gate without a record."""
    result = flacheck.check(package="tiny==1.0", triton="3.9.0", target="rtx4090")
    assert result.answer.startswith("Not known: nothing is on record about tiny==1.0")
    assert result.next == ("flacheck scan --package tiny==1.0 --triton 3.9.0 --target sm89",)
    assert result.exit_code() is Exit.INCOMPLETE


@pytest.mark.parametrize("about", [each for each in library.open_library().abouts if "==" in each])
def test_answers_about_all_shipped_packages_are_short_and_recommend(site: Path, about: str) -> None:
    """`known` and `check` say at most 25 words, and always what to do."""
    known = flacheck.known(about)
    best = known.recommendation.partition("triton==")[2].partition(":")[0]
    checked = flacheck.check(package=about, triton=best or "3.9.0", target=known.places[0].target)
    for answer in (known, checked):
        assert len(answer.answer.split()) <= MOST_WORDS
        assert answer.recommendation
        assert "none of" not in answer.answer


@pytest.mark.parametrize(
    ("selection", "kernels"),
    [
        ({"op": "parallel_path_attn"}, {"intra_chunk_preprocess_bwd_kernel"}),
        ({"kernel": "intra_chunk*"}, {"intra_chunk_preprocess_bwd_kernel"}),
        ({"kernel": "intra_chunk*", "dtype": "bf16"}, set()),
        ({"op": "*retention*"}, set()),
    ],
)
def test_known_answers_about_selected_kernels(selection: dict[str, str], kernels: set[str]) -> None:
    """A failure outside the selection does not count."""
    (place,) = flacheck.known(f"{FLA}==0.4.2", target="h100", triton="3.5.1", **selection).places
    assert {kernel.rpartition(":")[2] for kernel in place.failing_kernels} == kernels
    assert 0 < place.kernels.answered < 265
