"""Starts a program with the recorder in it; what it launched ends up in a launches file."""
