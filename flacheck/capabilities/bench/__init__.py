"""Timing of an operator's forms against each other on this machine's GPU."""
