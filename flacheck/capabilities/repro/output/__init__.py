"""What a reproduction leaves behind: the script, the issue, the result."""
