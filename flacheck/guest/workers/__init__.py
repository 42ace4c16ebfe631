"""Workers: one file for each compiler or operation."""
