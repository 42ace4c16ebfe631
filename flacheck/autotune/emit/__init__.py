"""Configurations in a form to paste or to load: one file a form."""
