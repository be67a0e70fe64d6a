"""A serving engine as the thing measured: its files and its live server read, its constants fitted, a record
kept.

Nothing here imports an engine; the formats are those of the versions named in each file.
"""
