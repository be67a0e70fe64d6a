"""Answers about one point, which is one batch, context and draft length. Does speculation pay off there, and
why? From which context, acceptance or batch does it pay off?
"""
