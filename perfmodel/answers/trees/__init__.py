"""Drafts in the form of a tree, and drafts with two levels."""
