"""The options of every command, each declared once, in a TypedDict for each command.

The API's keyword arguments, the command line, variables, settings and reference pages are made from
them. Nothing here imports a compiler, a terminal or the code of a command.
"""
