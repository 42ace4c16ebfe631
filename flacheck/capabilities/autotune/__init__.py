"""The examination of autotuners: configurations, their cost, and faults of keys."""
