"""The recorder of a program's launches.

It runs in the program's own interpreter and imports only the standard library, that interpreter's
torch and triton, and the guest itself.

`flacheck capture -- CMD` starts it through `start/sitecustomize.py`. A driver that calls a
package's operators starts it itself; it may import the guest's folder as a package of any name
(flacheck uses `flacheck_guest`):

    from flacheck_guest.recorder.session import Settings, session
    with session(Settings(output="l.jsonl", card=card)) as recorder:
        import fla.ops                        # torch, triton and the package: after the patches
        recorder.during = "fla.ops.chunk_gla" # goes into the lines that follow as "by"
        before = recorder.calls
        ...                                   # call an operator, forward and backward
        recorder.calls - before               # launches since, identical ones too
        recorder.kernels                      # Counter: "module:qualname" -> launches

A launches file is written line by line. Each line is one append, so that processes can share it:

    {"schema": "flacheck.launches/1", "package", "device", "triton", "torch"}
    {"id", "kernel", "package", "qualname", "source", "text"?, "uncut"?, "defined"?, "launch",
     "heuristics"?, "options", "grid", "paths", "by"?, "guessed"?}
    {"of": id, "count": n, "paths"?}    n more of the launch with that id (a launch's own line is
                                        one), and the call paths by which it came for the first time
    {"path": digest, "through": [name, …]}    a call path, before the lines that refer to it
    {"guessed": kind, "at": module:line, "count": n}    n values of a dtype (or results of an
                                                        operation) that were made up
    {"end": true, "coverage": …}  written by whoever started the program

`source` names the kernel's cut-out text, which is the `text` of the first line that uses it in its
process; `uncut` is the reason if there is none. `defined` holds in that line the files of the
kernel and its helpers, with digests of their text, so that a reader can detect later changes.
`heuristics` are the values of @triton.heuristics above the autotuner: their names are in the
launch's `omitted`, beside those that configurations provide. A launch is `guessed`, with
`module:line`, if the program function that read a guessed value, or a function of the same package
that called it, was still running: on the card the launch may be different. A call path names the
functions of the kernel's package that led to the launch, those of a backward pass with those of its
forward pass.
"""
