"""Constraints on a call's arguments that let the call reach a kernel's launch.

The search for inputs is a concolic execution: a call runs with concrete arguments on the fake
device, and the conditions on its path are kept with their source. `path_conditions` inverts the
branch conditions that kept a call from a launch, `constraints` those that made a call fail, and
`kernel_constraints` those of kernels that Triton's front end refused. `conditions` finds the values
that invert a condition, and `argument_dataflow` traces them back to the call's arguments.
"""
