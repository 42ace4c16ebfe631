"""Reach and recall of captures, counted in packages and public reports; nothing here asserts."""
