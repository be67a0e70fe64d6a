"""Measures a serving engine from outside: reads its files or times its running server, fits its constants and
writes a record.

No module imports an engine. Each file names the engine versions whose formats it reads.
"""
