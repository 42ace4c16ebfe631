"""Code that runs in another interpreter: beside one compiler, in a process that may die.

It knows the standard library and that interpreter's compiler, nothing of flacheck's other
modules; they start it and never import it. `server` keeps a warm process and forks from it,
`triton_worker` compiles a cell with whatever Triton is on its path, `releases` is the one
file that knows how those Tritons differ.
"""
