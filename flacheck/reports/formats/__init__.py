"""One file a format, named like it: `render(report, display)` gives the text piece by piece."""
