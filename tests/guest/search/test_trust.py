"""The launches of a driven package that stay, by the calls that made them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flacheck.guest.recorder.journal import Journal
from flacheck.guest.search.trust import CallTrust, LaunchTrust, Rank


class Drive:
    """Launches in calls of some rank, and the launches that are kept."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._journal = Journal(str(file), None, "real")
        self.witness = LaunchTrust(SimpleNamespace(journal=self._journal))  # type: ignore[arg-type]

    def launch(
        self,
        rank: Rank,
        kernel: str,
        source: str = "s",
        path: tuple[str, ...] = (),
        is_guess: bool = False,
        guessed_constants: bool = False,
        **args: Any,
    ) -> None:
        line = {"kernel": kernel, "source": source, "launch": {"args": args}}
        self._journal.launch(line, f"text of {source}", {}, dict, path)
        self.witness.add_kernel(kernel)
        self.witness.end_call(CallTrust(rank, is_guess, guessed_constants, "the grid"))

    def sift(self) -> list[dict[str, Any]]:
        self._journal.flush()
        self.witness.remove_untrusted(str(self._file))
        return [json.loads(line) for line in self._file.read_text().splitlines()]


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    return Drive(tmp_path / "l.jsonl")


def test_the_header_is_there_without_launches(drive: Drive) -> None:
    """A file of launches begins with its schema."""
    assert [line["schema"] for line in drive.sift()] == ["flacheck.launches/1"]


def test_a_launch_is_made_up_without_a_whole_call_of_host_code(drive: Drive) -> None:
    """A failed call and invented constants make it so; inferred tensors do not, nor a kernel alone
    with the constants of the package's own launches."""
    drive.launch(Rank.LAYER, "m:seen", n={"int": 1})
    drive.launch(Rank.INNER, "m:inner", is_guess=True, n={"int": 3})
    drive.launch(Rank.FAILED, "m:failed", n={"int": 4})
    drive.launch(Rank.ALONE, "m:alone", is_guess=True, guessed_constants=True, n={"int": 5})
    drive.launch(Rank.ALONE, "m:site", is_guess=True, n={"int": 7})
    drive.launch(Rank.OUTER, "m:constant", is_guess=True, guessed_constants=True, n={"int": 6})
    _, *launches = drive.sift()
    assert [(line["kernel"], line["call"], line["made_up"]) for line in launches] == [
        ("m:seen", "layer", False),
        ("m:inner", "inner function", False),
        ("m:failed", "failed call", True),
        ("m:alone", "alone", True),
        ("m:site", "alone", False),
        ("m:constant", "plain call", True),
    ]
    assert {line["sizes_from"] for line in launches} == {"the grid"}


def test_a_layer_that_was_built_with_a_guess_is_made_up(drive: Drive) -> None:
    """Its launches come before others all the same; one call without a guess is enough."""
    drive.launch(Rank.LAYER, "m:k", n={"int": 1}, is_guess=True, guessed_constants=True)
    drive.launch(Rank.LAYER, "m:k", n={"int": 2}, is_guess=True, guessed_constants=True)
    drive.launch(Rank.LAYER, "m:k", n={"int": 2})
    _, *launches = (line for line in drive.sift() if "kernel" in line or "schema" in line)
    assert [line["made_up"] for line in launches] == [True, False]


def test_a_function_that_its_package_calls_gets_the_dtypes_that_its_package_hands_it(
    drive: Drive,
) -> None:
    """Other callers do not matter: an operand in fp32 there is not in bf16 here."""
    bf16, fp16, fp32 = ({"dtype": dtype, "align": 16} for dtype in ("bf16", "fp16", "fp32"))
    drive.launch(Rank.OUTER, "m:back", k=bf16, sums=fp32)
    drive.launch(Rank.SHARED, "m:back", k=bf16, sums=bf16)
    drive.launch(Rank.SHARED, "m:back", k=fp16, sums=fp32)
    # An argument that the package leaves out, and a dtype in which all look alike.
    drive.launch(Rank.SHARED, "m:back", k=fp16, sums=fp32, gate=fp16)
    drive.launch(Rank.SHARED, "m:back", k=fp32, sums=fp32)
    drive.launch(Rank.SHARED, "m:alone", k=bf16, sums=bf16)
    _, *launches = drive.sift()
    launches_left = [(line["kernel"], line["launch"]["args"], line["made_up"]) for line in launches]
    assert launches_left == [
        ("m:back", {"k": bf16, "sums": fp32}, False),
        ("m:back", {"k": fp16, "sums": fp32}, False),
        ("m:back", {"k": fp16, "sums": fp32, "gate": fp16}, False),
        ("m:back", {"k": fp32, "sums": fp32}, False),
        ("m:alone", {"k": bf16, "sums": bf16}, False),
    ]


def test_the_best_call_of_a_launch_counts(drive: Drive) -> None:
    """The best call counts also if it came after the launch was written, with its counts."""
    drive.launch(Rank.FAILED, "m:k", n={"int": 1})
    drive.launch(Rank.LAYER, "m:k", n={"int": 1})
    _, launch, count = drive.sift()
    assert launch["made_up"] is False
    assert count == {"of": launch["id"], "count": 1}


def test_layers_know_what_is_a_pointer(drive: Drive) -> None:
    """A number where a layer passes a tensor was a wrong guess."""
    pointer, number = {"dtype": "bf16", "align": 16}, {"int": 64}
    drive.launch(Rank.LAYER, "m:k", x=pointer)
    drive.launch(Rank.OUTER, "m:k", x=number)
    drive.launch(Rank.OUTER, "m:other", x=number)
    _, *launches = drive.sift()
    assert [line["launch"]["args"]["x"] for line in launches] == [pointer, number]


def test_a_text_moves_to_the_first_line_that_stays(drive: Drive) -> None:
    """A reader finds the text of a source in the first line that names it."""
    drive.launch(Rank.INNER, "m:k", source="a", n={"int": 1})
    drive.launch(Rank.OUTER, "m:k", source="a", n={"int": 2})
    drive.launch(Rank.OUTER, "m:k", source="a", n={"int": 3})
    _, first, second = drive.sift()
    assert first["text"] == "text of a"
    assert "text" not in second


def test_the_call_paths_of_what_stays_stay(drive: Drive) -> None:
    """The call paths of dropped launches go with them."""
    drive.launch(Rank.OUTER, "m:k", path=("m.outer",), n={"int": 1})
    drive.launch(Rank.INNER, "m:k", path=("m.inner",), n={"int": 2})
    drive.launch(Rank.INNER, "m:k", path=("m.other",), n={"int": 1})
    lines = drive.sift()
    paths = {line["path"]: line["through"] for line in lines if "path" in line}
    assert list(paths.values()) == [["m.outer"], ["m.other"]]
    assert [paths[each] for line in lines for each in line.get("paths", ())] == [
        ["m.outer"],
        ["m.other"],
    ]


def test_launches_that_their_kernel_does_not_take_give_way(drive: Drive) -> None:
    """Accepted made-up launches replace them; observed launches stay, and so do the only ones."""
    drive.launch(Rank.INNER, "m:mended", n={"int": 1})
    refusals = {drive.witness.latest}
    drive.launch(Rank.INNER, "m:mended", n={"int": 2})
    drive.launch(Rank.LAYER, "m:seen", n={"int": 3})
    refusals.add(drive.witness.latest)
    drive.launch(Rank.INNER, "m:alone", n={"int": 4})
    refusals.add(drive.witness.latest)
    drive.witness.answer_about = dict.fromkeys(refusals, ValueError("refused")).get
    _, *launches = drive.sift()
    assert [line["launch"]["args"]["n"]["int"] for line in launches] == [2, 3, 4]


def test_a_launch_that_was_not_checked_does_not_displace_a_refused_one(drive: Drive) -> None:
    """The release may refuse the kernel whatever is passed, so the first launch stays first."""
    drive.launch(Rank.OUTER, "m:refused", n={"int": 1})
    refusals = {drive.witness.latest}
    drive.launch(Rank.OUTER, "m:refused", n={"int": 2})
    answers = dict.fromkeys(refusals, ValueError("refused"))
    drive.witness.answer_about = lambda identity: answers.get(identity, ...)
    _, *launches = drive.sift()
    assert [line["launch"]["args"]["n"]["int"] for line in launches] == [1, 2]


def test_a_none_that_a_public_operator_passes_is_evidence(drive: Drive) -> None:
    """A None of a public operator is evidence; a None of an inner function is a guess."""
    drive.launch(Rank.OUTER, "m:public", is_guess=True, h=None)
    with_none = {drive.witness.latest}
    drive.launch(Rank.INNER, "m:inner", h=None)
    with_none.add(drive.witness.latest)
    drive.launch(Rank.OUTER, "m:both", is_guess=True, h=None)
    with_none.add(drive.witness.latest)
    drive.launch(Rank.OUTER, "m:both", h={"int": 1})
    error = AttributeError("None has no dtype", name="dtype", obj=None)
    drive.witness.answer_about = dict.fromkeys(with_none, error).get
    _, *launches = drive.sift()
    assert [(line["kernel"], line["made_up"]) for line in launches] == [
        ("m:public", False),
        ("m:inner", True),
        ("m:both", False),
        ("m:both", False),
    ]
