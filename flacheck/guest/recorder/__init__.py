"""Records what a program launches. Runs in the program's own interpreter: the standard library and
that interpreter's torch and triton, nothing else of flacheck.

`flacheck capture -- CMD` comes in through `start/sitecustomize.py`. A driver that calls a package's
operators comes in by hand; the guest's folder is a package of any name to it (flacheck calls it
`flacheck_guest`):

    from flacheck_guest.recorder.session import Settings, session
    with session(Settings(output="l.jsonl", card=card)) as recorder:
        import fla.ops                        # torch, triton and the package: after the patches
        recorder.during = "fla.ops.chunk_gla" # goes into the lines that follow as "by"
        before = recorder.calls
        ...                                   # call an operator, forward and backward
        recorder.calls - before               # launches since, identical ones too
        recorder.kernels                      # Counter: "module:qualname" -> launches

A launches file is written line by line, each in one append, so that several processes can share it:

    {"schema": "flacheck.launches/1", "package", "device", "triton", "torch"}
    {"id", "kernel", "package", "qualname", "source", "text"?, "uncut"?, "defined"?, "launch",
     "heuristics"?, "options", "grid", "paths", "by"?, "guessed"?}
    {"of": id, "count": n, "paths"?}    n more of the launch with that id (a launch's own line is
                                        one), and the call paths by which it came for the first time
    {"path": digest, "through": [name, …]}    a call path, before the lines that refer to it
    {"guessed": kind, "at": module:line, "count": n}    n values of a dtype (or results of an
                                                        operation) that were made up
    {"end": true, "coverage": …}  written by whoever started the program

`source` names the kernel's cut-out text, which stands as `text` in the first line that uses it in
its process; `uncut` says why there is none. `defined` says there where the kernel and its helpers
stand, with digests of what they say, so that a reader sees what has changed since. `heuristics` are
the values that @triton.heuristics gave above the autotuner: their names stand in the launch's
`omitted` beside those that configurations give. A launch is `guessed`, with `module:line`, when the
program's function that read a made-up value there, or one of the same package that called it, was
still running: what it launched may not be what it would launch on the card. A call path names
the functions of the kernel's package that led to the launch, those of a backward pass with those of
its forward pass.
"""
