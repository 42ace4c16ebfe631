"""The capabilities of flacheck, a folder each: functions from a job to a result."""
