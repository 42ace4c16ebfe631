"""Casts that fix findings: edits of the source, applied in a copy that runs again.

The result of a promotion is cast back to the dtype of its half operand, so that it is still
computed in float32. For an operation that rejects its operands, the wide operand is cast instead.
"""

from __future__ import annotations

import ast
import difflib
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.capabilities.dtypes import expressions, following
from flacheck.capabilities.dtypes.finding import OVERFLOW, PROMOTION, DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesAnswer, DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode, Place

# Returns the findings of a run in some modes.
Judge = Callable[[DtypesAnswer, Sequence[Mode]], list[DtypeFinding]]
# Each round may uncover the next promotion of the same tensor.
_ROUNDS = 6
# A computed half operand is bound to this name, so that it is computed only once.
_NAME = "half"


@dataclass(frozen=True)
class Edit:
    """New text in place of an expression."""

    place: Place
    text: str


@dataclass(frozen=True)
class FixResult:
    """The outcome of casts in a copy of the sources.

    `diff` is a unified diff of all changes; `remaining` are the findings of the fixed copy;
    `behind` are findings that only appeared after others were cast; `not_fixed` are findings of the
    first run without an edit.
    """

    diff: str
    remaining: tuple[DtypeFinding, ...]
    behind: tuple[DtypeFinding, ...]
    not_fixed: tuple[DtypeFinding, ...]


def make_edit(finding: DtypeFinding) -> Edit | None:
    """Return the cast for a finding, or None if the source does not identify the expression."""
    node = expressions.find_expression(finding.place)
    if node is None or finding.code == OVERFLOW or not finding.half:
        return None
    file = expressions.read_source(finding.place.file)
    if finding.code == PROMOTION:
        text = file.segment(node)
        half = finding.half
        if not _is_plain(half):
            # The operand is evaluated in place, which comes before its dtype is read.
            text = text.replace(half, f"({_NAME} := {half})", 1)
            half = _NAME
        if not isinstance(node, ast.Call):
            text = f"({text})"
        return Edit(_place(finding.place.file, node), f"{text}.to({half}.dtype)")
    wide = _wide(node, file, finding.operand)
    if wide is None or not _is_plain(finding.half):
        return None
    text = file.segment(wide)
    if not isinstance(wide, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        text = f"({text})"
    return Edit(_place(finding.place.file, wide), f"{text}.to({finding.half}.dtype)")


def _is_plain(text: str) -> bool:
    """Return whether an expression may be evaluated twice."""
    tree = ast.parse(text, mode="eval")
    return all(
        isinstance(node, (ast.Expression, ast.Name, ast.Attribute, ast.expr_context))
        for node in ast.walk(tree)
    )


def _wide(node: ast.expr, file: expressions.SourceFile, operand: str) -> ast.expr | None:
    for each in ast.walk(node):
        if isinstance(each, ast.expr) and " ".join(file.segment(each).split()) == operand:
            return each
    return None


def _place(file: str, node: ast.expr) -> Place:
    return Place(file, node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a file's text with edits applied; of two that overlap, only the outer one."""
    starts = [0]
    content = text.encode()
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    spans = []
    for each in edits:
        place = each.place
        begin = starts[place.line - 1] + (place.column or 0)
        end = starts[(place.end_line or place.line) - 1] + (place.end_column or 0)
        spans.append((begin, end, each.text.encode()))
    outer: list[tuple[int, int, bytes]] = []
    for span in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if not outer or span[0] >= outer[-1][1]:
            outer.append(span)
    for begin, end, new in reversed(outer):
        content = content[:begin] + new + content[end:]
    return content.decode()


def diff(name: str, before: str, after: str) -> str:
    """Return a unified diff that `git apply` and `patch -p1` accept."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    return "".join(lines)


def add_fix(finding: DtypeFinding) -> DtypeFinding:
    """Return the finding with its own cast as a diff, if there is a cast."""
    change = make_edit(finding)
    if change is None:
        return finding
    text = expressions.read_source(finding.place.file).text
    return replace(finding, fix=diff(finding.file, text, apply_edits(text, [change])))


def fix(
    question: DtypesQuestion, findings: Sequence[DtypeFinding], folder: Path, judge: Judge
) -> FixResult:
    """Cast findings in a copy of the sources and run the copy, until no finding can be cast.

    The copy lies below `folder`; `judge` finds what remains in it.
    """
    copy = folder / "mended"
    not_fixed = tuple(each for each in findings if make_edit(each) is None)
    names = _names(findings)
    remaining: Sequence[DtypeFinding] = findings
    behind: dict[tuple[str, str, str], DtypeFinding] = {}
    sources: dict[str, tuple[str, Path]] = {}
    for _ in range(_ROUNDS):
        edits: dict[str, list[Edit]] = {}
        for finding in remaining:
            change = make_edit(finding)
            if change is not None:
                edits.setdefault(finding.place.file, []).append(change)
        if not edits:
            break
        for file, changes in edits.items():
            target = _copy(Path(file), question, copy)
            original = expressions.read_source(file).text
            name = target.relative_to(copy).as_posix()
            sources.setdefault(name, (original, target))
            target.write_text(apply_edits(target.read_text(encoding="utf-8"), changes), "utf-8")
        expressions.read_source.cache_clear()
        answer = following.follow(_within(question, copy), folder, copy)
        remaining = judge(answer, question.modes)
        for finding in remaining:
            name = names.get(finding.file, finding.file)
            each = add_fix(replace(finding, file=name, is_after_fix=True))
            behind.setdefault((each.subject, each.mode, each.identity), each)
    diffs = []
    for name, (original, target) in sources.items():
        diffs.append(diff(names.get(name, name), original, target.read_text(encoding="utf-8")))
    for each in findings:
        behind.pop((each.subject, each.mode, each.identity), None)
    return FixResult("".join(diffs), tuple(remaining), tuple(behind.values()), not_fixed)


def _names(findings: Iterable[DtypeFinding]) -> dict[str, str]:
    """Return the path of each user's file in a report, by its name at the top of the copy."""
    return {Path(each.file).name: each.file for each in findings}


def _copy(file: Path, question: DtypesQuestion, copy: Path) -> Path:
    """Return a file's counterpart in the copy, and copy its whole package if it is missing."""
    if file.is_relative_to(copy):
        return file
    root = _root(file)
    target = copy / file.relative_to(root.parent)
    if not target.exists():
        copy.mkdir(parents=True, exist_ok=True)
        if root.is_dir():
            shutil.copytree(root, copy / root.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root, target)
    return target


def _root(file: Path) -> Path:
    """Return the outermost package folder of a file, or the file itself."""
    root = file
    while (root.parent / "__init__.py").is_file():
        root = root.parent
    return root


def _within(question: DtypesQuestion, copy: Path) -> DtypesQuestion:
    """Return the question with the copies of the user's files as its targets."""
    targets, paths = [], list(question.paths)
    for target in question.targets:
        where, _, name = target.rpartition(":")
        copied_file = copy / Path(where).name
        if where.endswith(".py") and copied_file.is_file():
            target = f"{copied_file}:{name}"
            # The file may import modules of its own folder.
            paths.append(str(Path(where).parent.absolute()))
        targets.append(target)
    script = question.script
    if script and (copy / Path(script[0]).name).is_file():
        script = (str(copy / Path(script[0]).name), *script[1:])
        paths.append(str(Path(question.script[0]).parent.absolute()))
    return replace(question, targets=tuple(targets), paths=tuple(paths), script=script)
