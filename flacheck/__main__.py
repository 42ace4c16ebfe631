"""`python -m flacheck`, and the command `flacheck`."""

import os
import signal
import sys

# That of an interrupted command, before anything that knows it can be imported.
_INTERRUPTED = 130


def main() -> None:
    """The command line. Ctrl-C outside a command's own work ends the process at once."""
    # Nothing is stored or started yet. A shell may have set the signal to be ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from flacheck.errors import Exit, unsupported_system

    # Before any import that fails elsewhere: fcntl and resource are missing on Windows.
    problem = unsupported_system(sys.platform)
    if problem is not None:
        print(f"flacheck: {problem}", file=sys.stderr)
        raise SystemExit(int(Exit.INCOMPLETE))
    from flacheck import cli

    cli.main()


if __name__ == "__main__":
    main()
