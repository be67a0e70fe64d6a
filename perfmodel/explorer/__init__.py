"""The explorer: an HTML page in one file that shows the speedup over batch and context."""
