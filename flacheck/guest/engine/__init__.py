"""The warm server and its parts; it imports the standard library and the compiler only."""
