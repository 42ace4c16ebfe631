"""The gate: the releases that pins of torch and Triton allow, judged by records."""
