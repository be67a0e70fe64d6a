"""Calibrations: their fitted constants, and the choice of a calibration for a question."""
