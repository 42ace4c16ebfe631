"""The topics of `flacheck help`, a file each."""

from importlib.resources import files


def topic_texts() -> dict[str, str]:
    """Return the text of each topic by its name."""
    entries = files(__name__).iterdir()
    pages = sorted(
        (entry for entry in entries if entry.name.endswith(".md")), key=lambda page: page.name
    )
    return {page.name.removesuffix(".md"): page.read_text(encoding="utf-8") for page in pages}


def title_of(text: str) -> str:
    """Return the heading of a topic."""
    return text.partition("\n")[0].removeprefix("# ")
