"""flacheck help: what the words, settings and formats of all commands mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flacheck import Exit, UsageError
from flacheck.api.settings import suggest
from flacheck.cli import common, completion, flags
from flacheck.cli.topics import title_of, topic_texts

_WORDS = "A topic, or a command: settings, selection, scan, toolchain install."


@common.command(
    examples=[
        ("Which topics are there?", "flacheck help"),
        ("How are options set in a project?", "flacheck help settings"),
        ("A command's help page", "flacheck help toolchain install"),
    ],
    exits={0: "always, when the topic exists"},
)
def help_(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        flags.argument(metavar="TOPIC", help=_WORDS, complete=completion.topics),
    ] = None,
) -> int:
    """Explain a topic or a command."""
    topics = topic_texts()
    name = " ".join(words or [])
    if not name:
        lines = ["Topics, each with `flacheck help TOPIC`:\n"]
        for topic, text in topics.items():
            lines.append(f"  {topic:<12}{title_of(text)}\n")
        common.write(
            [*lines, "\nCommands, each with `flacheck help COMMAND`: see flacheck -h\n"], None
        )
    elif name in topics:
        common.write([topics[name]], None)
    else:
        common.write([_page_of_command(context, words or [], list(topics)) + "\n"], None)
    return Exit.OK


def _page_of_command(context: typer.Context, words: list[str], topics: list[str]) -> str:
    """Return the help page of a command by its words: `toolchain install`."""
    parent: Any = context.parent
    for word in words:
        group = parent.command
        names = list(getattr(group, "commands", {}))
        if word not in names:
            hint = suggest(word, [*names, *topics])
            raise UsageError(f"no command or topic {' '.join(words)!r}; see flacheck help{hint}")
        parent = type(context)(group.commands[word], info_name=word, parent=parent)
    return str(parent.get_help())
