"""Fallbacks: what compiles in place of what fails, nearest first; seen among a scan's own records
(`seen`), or searched and compiled before it is said (`searching`).
"""
