"""Requirements, warnings and refusals of a package in a comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from flacheck.capabilities.diff.package_view import OwnCapture, missing, words
from flacheck.capabilities.diff.sides import ReleaseSide, StoredSide
from flacheck.pipeline.package_launches import PackageCapture
from flacheck.source.packages.package import Package
from flacheck.subjects.captures.capture_job import CaptureResult
from flacheck.toolchains import triton_releases
from tests.made_records import record

METADATA = """Metadata-Version: 2.1
Name: tiny
Version: 1.0
Requires-Dist: tiny-core==1.0
Requires-Dist: triton>=3.3; extra == "gpu"
Requires-Dist: torch>=99; python_version < "3"
"""
CORE = """Metadata-Version: 2.1
Name: tiny-core
Version: 1.0
Requires-Dist: torch>=2.5,<2.10
Requires-Dist: Triton>=3.4
Requires-Dist: einops
"""


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """A package that pins another one, which has the requirements."""
    for name, text in (("tiny", METADATA), ("tiny_core", CORE)):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(text)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "__init__.py").touch()
    (tmp_path / "a" / "b.py").write_text("@triton.jit\ndef k(): ...\n")
    return Package("tiny", "1.0", str(tmp_path), "digest", {})


def release(triton: str, torch: str | None = None) -> ReleaseSide:
    choice = triton_releases.release(Version(triton))
    return ReleaseSide(f"triton=={triton}", choice.identity, choice, torch)


def capture(package: Package, triton: str, report: Mapping[str, Any]) -> OwnCapture:
    whole = {"operators": {}, "modules": {}, "late": False, **report}
    driven = CaptureResult(Path(package.path) / "launches.jsonl", json.loads(json.dumps(whole)))
    return OwnCapture(PackageCapture(package, release(triton).choice, "sm90", driven))


def test_requirements_are_held_to_both_sides(package: Package) -> None:
    """Requirements of the package and of its pinned dependencies are checked on both sides."""
    notices = words(
        (package, package), [], (release("3.3.1", "2.7.1"), release("3.6.0", "2.10.0")), []
    )
    assert [(word.text, word.under_from, word.under_to) for word in notices] == [
        ("tiny-core 1.0 requires torch<2.10,>=2.5", False, True),
        ("tiny-core 1.0 requires Triton>=3.4", True, False),
    ]


def test_a_triton_stands_for_the_torch_releases_that_pin_it(package: Package) -> None:
    """A requirement of torch holds if any torch that pins the Triton satisfies it."""
    run = StoredSide("run:x", "run x", (record(),))
    notices = words((package, package), [], (release("3.5.1"), run), [])
    assert [(word.under_from, word.under_to) for word in notices] == [(False, False)] * 2
    assert words((package, package), [], (release("3.7.0"), run), [])[0].under_from
    assert not words((package, package), [], (release("3.3.0"), run), [])[0].under_from


def test_warnings_are_told_with_the_sides_that_have_them(package: Package) -> None:
    """Each warning is listed once, with the sides that printed it."""
    old = {"said": [{"text": "Triton 3.2.0 is recommended", "by": "tiny"}]}
    new = {"said": [*old["said"], {"text": "Triton 3.6.0 is not supported", "by": "tiny"}]}
    captures = [capture(package, "3.5.1", old), capture(package, "3.6.0", new)]
    notices = words((None, None), [], (release("3.5.1"), release("3.6.0")), captures)
    assert [(word.kind, word.text, word.under_from, word.under_to) for word in notices] == [
        ("warns", "Triton 3.2.0 is recommended", True, True),
        ("warns", "Triton 3.6.0 is not supported", False, True),
    ]


GO = {"a.ops:go": {"kernels": ["a.b:k"], "failures": {"plan": "too new"}}}


@pytest.mark.parametrize(
    ("report", "recorded_kernel", "refusals", "missed_kernels", "why"),
    [
        (
            {"import_error": {"traceback": "Traceback …\nValueError: too new"}},
            "none",
            {},
            {},
            "refused by the package: ValueError: too new",
        ),
        (
            {"operators": GO},
            "none",
            {"a.ops:go": "Triton 3.6.0 is not supported"},
            {"a.b:k": "raised an error"},
            "refused by the package: a.ops:go: Triton 3.6.0 is not supported",
        ),
        (
            {"operators": GO, "cut": ["a.layers:Go"]},
            "none",
            {},
            {"a.b:k": "no operator reaches it"},
            "capture cut: the time ran out before 1 operator could be called",
        ),
        (
            {"late": True},
            "a.b:k",
            {},
            {},
            "capture cut: the time ran out before it was called in bf16",
        ),
        (
            {},
            "none",
            {},
            {"a.b:k": "a.ops:go ran without it"},
            "not launched: a.ops:go ran without it",
        ),
        # The coverage report covers only a part of the package.
        ({}, "none", {}, {}, "not launched: no call that flacheck made reached its launch"),
        ({}, "a.b:k", {}, {}, "not launched in bf16"),
    ],
)
def test_a_kernel_that_one_side_lacks_has_a_reason(
    report: dict[str, Any],
    recorded_kernel: str,
    refusals: dict[str, str],
    missed_kernels: dict[str, str],
    why: str,
    package: Package,
) -> None:
    """The reason is a refusal, a cut capture, or the absence of a launch."""
    coverage_report = {
        "toolchain": "triton==3.6.0",
        "missed": [
            {"kernel": kernel, "reason": reason} for kernel, reason in missed_kernels.items()
        ],
    }
    captures = [capture(package, "3.6.0", report)]
    driven = captures[0].capture.driven
    assert driven is not None
    driven.launches.write_text(json.dumps({"kernel": recorded_kernel}) + "\n")
    reason = missing("TO", "triton==3.6.0", captures, refusals, [coverage_report])
    assert reason(record(kernel="a.b:k")) == why


def test_another_release_of_a_package_may_have_no_such_kernel(package: Package) -> None:
    """The reason names the package release that lacks the kernel."""
    captures = [capture(package, "3.6.0", {})]
    reason = missing("TO", "triton==3.6.0", captures, {}, [])
    driven = captures[0].capture.driven
    assert driven is not None
    driven.launches.touch()
    for kernel in ("a.gone:k", "a.b:gone"):
        assert reason(record(kernel=kernel)) == "tiny==1.0 has no such kernel"


def test_without_a_capture_there_is_only_no_result(package: Package) -> None:
    """Without a capture the reason is "no result"."""
    assert missing("run x", None, [], {}, [])(record()) == "no result in run x"
    other = [capture(package, "3.5.1", {})]
    assert missing("TO", "triton==3.6.0", other, {}, [])(record()) == "no result in TO"
