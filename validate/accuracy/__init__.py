"""Computes, checks and prints the errors of predictions of measurements."""
