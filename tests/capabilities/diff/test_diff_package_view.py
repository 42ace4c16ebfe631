"""What the package itself says of a release."""

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
    """Those of the package and of what it pins; not those of an extra or of another system."""
    said = words(
        (package, package), [], (release("3.3.1", "2.7.1"), release("3.6.0", "2.10.0")), []
    )
    assert [(word.text, word.under_from, word.under_to) for word in said] == [
        ("tiny-core 1.0 requires torch<2.10,>=2.5", False, True),
        ("tiny-core 1.0 requires Triton>=3.4", True, False),
    ]


def test_a_triton_stands_for_the_torch_releases_that_pin_it(package: Package) -> None:
    """Any of them is enough; of a Triton that none pins, and of stored results, nothing is known."""
    stored = StoredSide("run:x", "run x", (record(),))
    said = words((package, package), [], (release("3.5.1"), stored), [])
    assert [(word.under_from, word.under_to) for word in said] == [(False, False)] * 2
    assert words((package, package), [], (release("3.7.0"), stored), [])[0].under_from
    assert not words((package, package), [], (release("3.3.0"), stored), [])[0].under_from


def test_warnings_are_told_with_the_sides_that_have_them(package: Package) -> None:
    """Each once, whichever target was captured."""
    old = {"said": [{"text": "Triton 3.2.0 is recommended", "by": "tiny"}]}
    new = {"said": [*old["said"], {"text": "Triton 3.6.0 is not supported", "by": "tiny"}]}
    made = [capture(package, "3.5.1", old), capture(package, "3.6.0", new)]
    said = words((None, None), [], (release("3.5.1"), release("3.6.0")), made)
    assert [(word.kind, word.text, word.under_from, word.under_to) for word in said] == [
        ("warns", "Triton 3.2.0 is recommended", True, True),
        ("warns", "Triton 3.6.0 is not supported", False, True),
    ]


GO = {"a.ops:go": {"kernels": ["a.b:k"], "failures": {"plan": "too new"}}}


@pytest.mark.parametrize(
    ("report", "recorded", "refused", "missed", "why"),
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
        # The coverage speaks of a part of the package only.
        ({}, "none", {}, {}, "not launched: no call that flacheck made reached its launch"),
        ({}, "a.b:k", {}, {}, "not launched in bf16"),
    ],
)
def test_a_kernel_that_one_side_lacks_has_a_reason(
    report: dict[str, Any],
    recorded: str,
    refused: dict[str, str],
    missed: dict[str, str],
    why: str,
    package: Package,
) -> None:
    """Refused, cut, or not launched."""
    covered = {
        "toolchain": "triton==3.6.0",
        "missed": [{"kernel": kernel, "reason": reason} for kernel, reason in missed.items()],
    }
    made = [capture(package, "3.6.0", report)]
    driven = made[0].capture.driven
    assert driven is not None
    driven.launches.write_text(json.dumps({"kernel": recorded}) + "\n")
    reason = missing("TO", "triton==3.6.0", made, refused, [covered])
    assert reason(record(kernel="a.b:k")) == why


def test_another_release_of_a_package_may_have_no_such_kernel(package: Package) -> None:
    """The reason names the release, for a missing module and for a missing function."""
    made = [capture(package, "3.6.0", {})]
    reason = missing("TO", "triton==3.6.0", made, {}, [])
    driven = made[0].capture.driven
    assert driven is not None
    driven.launches.touch()
    for kernel in ("a.gone:k", "a.b:gone"):
        assert reason(record(kernel=kernel)) == "tiny==1.0 has no such kernel"


def test_without_a_capture_there_is_only_no_result(package: Package) -> None:
    """As of stored results, and of a matrix."""
    assert missing("run x", None, [], {}, [])(record()) == "no result in run x"
    other = [capture(package, "3.5.1", {})]
    assert missing("TO", "triton==3.6.0", other, {}, [])(record()) == "no result in TO"
