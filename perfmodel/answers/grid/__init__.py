"""Answers many points at once, and writes the answers to files."""
