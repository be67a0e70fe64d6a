"""Many points at once, and the files that hold them."""
