"""Devices: what a vendor states of each."""
