"""What an autotuner makes of a kernel: its configurations, their cost, its keys' faults."""
