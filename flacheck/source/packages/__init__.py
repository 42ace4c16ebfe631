"""Packages and checkouts, each provided at an exact version."""
