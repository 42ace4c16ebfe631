"""A kernel as a syntax tree that can be read, typed and edited."""
