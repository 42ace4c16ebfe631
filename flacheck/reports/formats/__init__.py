"""Formats: each module renders a report as text, piece by piece, with `render(report, display)`."""
