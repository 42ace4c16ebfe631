"""The share of a package's kernels that a capture saw, and the reasons for the others."""

from __future__ import annotations

from flacheck.subjects.captures.coverage import coverage

LAUNCHABLE = {
    "pkg.ops.one:first": ("pkg.ops.one:host", "pkg.ops.two:Layer"),
    "pkg.ops.one:second": ("pkg.ops.one:host",),
}


def test_a_missed_kernel_has_a_reason() -> None:
    """The reason is that the module was not imported, that a call raised, or that no call reached
    it."""
    errors = {
        "kernels": ["pkg.ops.one:second"],
        "launches": 0,
        "failures": {"plain": "ValueError: no"},
    }
    one_missed = coverage(
        LAUNCHABLE,
        {"pkg.ops.one:first": 3},
        {"modules": {}, "operators": {"pkg.ops.one:host": errors}},
    )
    assert (one_missed["launchable"], one_missed["recorded"]) == (2, 1)
    assert one_missed["missed"] == [
        {
            "kernel": "pkg.ops.one:second",
            "reason": "pkg.ops.one:host raised an error before it launched anything: ValueError: no",
        }
    ]
    nobody = coverage(LAUNCHABLE, {}, {"modules": {}, "operators": {}})
    reasons = [each["reason"] for each in nobody["missed"]]
    assert len(reasons) == 2
    assert all(reason.startswith("no operator that flacheck found reaches") for reason in reasons)
    absent = coverage(
        LAUNCHABLE, {}, {"modules": {"pkg.ops.one": "ImportError: x"}, "operators": {}}
    )
    assert absent["missed"][0]["reason"] == "pkg.ops.one cannot be imported: ImportError: x"


def test_what_the_time_did_not_suffice_for_is_named() -> None:
    """Operators that were never called and dtypes that were not reached are named."""
    report = {"modules": {}, "operators": {}, "cut": ["pkg.ops.one:late"], "late": True}
    report_rows = coverage(LAUNCHABLE, {}, report)
    assert report_rows["cut"] == ["pkg.ops.one:late", "further dtypes of launched kernels"]
    assert coverage(LAUNCHABLE, {}, {"modules": {}, "operators": {}})["cut"] == []


def test_what_triton_refuses_is_said_before_what_an_operator_raised() -> None:
    """An operator that swallows the refusal, or another one that failed, is not the reason."""
    error_text = "KeyError: Keyword argument BLOK was specified but unrecognised"
    report = {"operators": {}, "refused": {"pkg.ops.one:second": error_text}}
    report_rows = coverage(LAUNCHABLE, {"pkg.ops.one:first": 1}, report)
    refusal = {"kernel": "pkg.ops.one:second", "reason": f"Triton refuses its launch: {error_text}"}
    assert report_rows["missed"] == [refusal]
