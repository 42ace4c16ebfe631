"""`python -m flacheck`."""

from flacheck.cli import main

main()
