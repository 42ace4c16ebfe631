"""The template, style and script of an HTML report."""
