"""Answers: one file for each question that a user asks, in Python here and on the command line in
`perfmodel.cli`.
"""
