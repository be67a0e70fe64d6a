"""Fits calibrations to measured points, and judges each fit by refits without a part of the points."""
