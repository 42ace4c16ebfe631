"""Measurements whose answers are known, on a machine with an NVIDIA GPU, torch and Triton."""
