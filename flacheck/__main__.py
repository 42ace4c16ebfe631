"""`python -m flacheck`, and the command `flacheck`."""

import sys

# That of an interrupted command, before anything that knows it can be imported.
_INTERRUPTED = 130


def main() -> None:
    """The command line. Ctrl-C while it is still being imported ends it as it does later."""
    try:
        from flacheck import cli
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    cli.main()


if __name__ == "__main__":
    main()
