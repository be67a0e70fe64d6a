"""The explorer: speedup surfaces in one HTML page that needs nothing else."""
