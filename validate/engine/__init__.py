"""Measures a serving engine from outside: reads its files or its live server, fits its constants and keeps a
record.

Nothing here imports an engine; the formats are those of the versions named in each file.
"""
