"""The gate: pins of torch and Triton, what they admit, and what the records say of that."""
