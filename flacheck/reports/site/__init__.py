"""The templates, style and script of the board of published results."""
