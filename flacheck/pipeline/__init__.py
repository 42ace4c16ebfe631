"""The pipeline that every capability runs: job, resolution, capture, plan, run."""
