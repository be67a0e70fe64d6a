"""Answers about one point (one batch, context and draft length): does speculation pay there, and why? From
which context, acceptance or batch does it pay?
"""
