"""The gate: pins of torch and Triton (`sources`), what they admit, and what the store's records say
of that.
"""
