"""Calibrations: fitted constants, and which calibration answers a question."""
