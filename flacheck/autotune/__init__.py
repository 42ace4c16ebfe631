"""What a release's autotuner makes of a kernel: its configurations, their cost, and the faults of
its keys.
"""
