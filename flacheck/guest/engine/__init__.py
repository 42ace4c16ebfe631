"""The warm server and what it needs: the standard library and the compiler only."""
