"""Errors of predictions against measurements: how they are computed, checked and printed."""
