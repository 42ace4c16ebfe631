"""One file a compiler or operation."""
