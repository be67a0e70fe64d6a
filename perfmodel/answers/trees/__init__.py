"""Answers about trees of drafted tokens and about two levels of drafts."""
