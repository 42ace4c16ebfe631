"""Published results: answers for released packages, compiled by the project and shipped.

packing: a question on one place with its records ──▶ form: a file ──▶ library: a folder of files
                                                                          │
                                   unpacking: question, keys, records ◀───┘
"""
