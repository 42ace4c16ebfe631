"""The output of a reproduction: the script, the issue, the result."""
