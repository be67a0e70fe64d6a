"""The explorer: speedup surfaces in one self-contained HTML page."""
