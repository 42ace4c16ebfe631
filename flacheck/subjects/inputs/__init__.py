"""The inputs that cells are made of: matrices, launches files, flacheck's own kernels."""
