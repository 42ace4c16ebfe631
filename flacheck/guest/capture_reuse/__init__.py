"""Reuse of a package's capture under another release of Triton.

While a package is captured, its reads of Triton's API (`triton_api_trace`), its kernels'
decorators (`kernel_decorators`) and the front end's checks (`frontend_queries`) are written down.
`reuse` repeats them under another release; where the results are identical, so are the launches.
"""
