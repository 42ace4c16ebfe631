"""The card that is not there."""
