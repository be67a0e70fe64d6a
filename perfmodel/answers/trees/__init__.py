"""Drafts in the form of a tree."""
