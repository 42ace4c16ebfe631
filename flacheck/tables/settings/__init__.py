"""Settings and waivers, read from TOML with line numbers."""
