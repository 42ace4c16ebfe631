"""Code that runs in another interpreter: beside one compiler, in a process that may die. It knows
the standard library and that interpreter's compiler, nothing of flacheck's other modules; they
start it and never import it. `engine` keeps a warm process and forks from it, `workers` do what a
request asks for, `engine/releases.py` is the one file that knows how Triton's releases differ.
`fake_cuda`, `recorder`, `solver`, `inference`, `search` and `test_suite` need torch too."""
