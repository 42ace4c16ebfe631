"""The board's pages: templates, styles, and what the templates show of published results."""
