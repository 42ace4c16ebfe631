"""The pipeline that every capability runs: job, resolution, capture, plan, run; and its fallbacks.

A run yields typed events. Nothing here prints, draws or reads a command line.
"""
