"""Fits calibrations to measured points: counts operations, solves least squares, and judges the fit by refits
without a part of the rows.
"""
