"""What new users ask, as commands with the first lines of their answers."""
