"""Answers many points at once, and writes them to files."""
