"""An imitated CUDA card."""
