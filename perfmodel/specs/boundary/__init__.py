"""Where files are read and checked."""
