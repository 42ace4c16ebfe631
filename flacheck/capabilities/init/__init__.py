"""Files that make a project's CI use flacheck: workflow, settings, pre-commit hook, baseline."""
