"""Many points at once, and the files they are written to."""
