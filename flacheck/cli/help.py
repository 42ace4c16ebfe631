"""flacheck help: what the words, settings and formats of all commands mean."""

from typing import Annotated, Any, TypedDict

import typer

from flacheck import Exit, UsageError
from flacheck.api.settings import suggest
from flacheck.cli import common, flags
from flacheck.cli.topics import title_of, topic_texts

_WORDS = "A topic, or a command: settings, selection, scan, toolchain install."


class HelpOptions(TypedDict, total=False):
    """The options of `flacheck help`."""

    words: Annotated[
        list[str], flags.argument("TOPIC", _WORDS, None, kind=list[str], complete="topics")
    ]


@common.command(
    HelpOptions,
    examples=[
        ("Which topics are there?", "flacheck help"),
        ("How are options set in a project?", "flacheck help settings"),
        ("A command's help page", "flacheck help toolchain install"),
    ],
    exits={0: "always, when the topic exists"},
)
def help_(call: common.Call[HelpOptions]) -> int:
    """Explain a topic or a command."""
    topics = topic_texts()
    words = call.options["words"] or []
    name = " ".join(words)
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
        common.write([_page_of_command(call.context, words, list(topics)) + "\n"], None)
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
