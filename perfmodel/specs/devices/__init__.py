"""Devices: the data-sheet figures of each device, its links and its power."""
