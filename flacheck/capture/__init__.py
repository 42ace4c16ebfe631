"""Starts a program with the recorder in it; what it launched ends up in a launches file."""

from flacheck.capture.cards import card
from flacheck.capture.run import NOT_STARTED, capture

__all__ = ["NOT_STARTED", "capture", "card"]
