"""Sandbox, executors, judge and the one loop."""
