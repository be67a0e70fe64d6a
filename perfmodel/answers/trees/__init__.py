"""Drafts that branch, and drafts with two levels."""
