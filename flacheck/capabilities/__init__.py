"""The capabilities of flacheck, a folder each: functions from a job to a result.

They do not import each other, and none prints or exits.
"""
