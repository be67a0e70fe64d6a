"""Devices: the vendor's figures of each."""
