"""The public API: one function for each command, in `flacheck` itself.

Each function takes the command line's names, returns frozen values with `to_json()`, raises
`flacheck.FlacheckError`, prints nothing and never exits. `on_event` receives typed events while the
function works.
"""
