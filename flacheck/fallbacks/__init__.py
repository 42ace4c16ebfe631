"""What compiles in place of what fails: `seen` in a scan's records, or compiled (`searching`)."""
