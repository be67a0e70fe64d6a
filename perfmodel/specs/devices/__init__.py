"""Devices: the vendor's figures for each device."""
