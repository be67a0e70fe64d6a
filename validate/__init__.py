"""Measurement: published and own records, a real decoder, calibration and comparison. Heavy parts load on use."""
