"""Captures: programs and packages run under the recorder, which writes a launches file."""
