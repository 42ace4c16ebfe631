"""Records and published results, turned into standings, baselines and the answers of commands.

What a release's failures mean is decided here and nowhere else. Nothing here compiles, runs a
package or knows a terminal.
"""
