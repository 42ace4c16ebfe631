"""Code that runs in another interpreter, beside one compiler.

The process may die, because the compiler may crash it. It imports the standard library and that
interpreter's compiler, and nothing of flacheck's other modules, which start it and never import it.
`engine` keeps a warm process and forks from it, `workers` handle requests, and `engine/releases.py`
is the one file that holds the differences between Triton's releases. `fake_cuda`, `recorder`,
`inference`, `search` and `test_suite` need torch too.
"""
