"""Reads and checks files."""
