"""Answers: one file for each question of a user, in Python here and on the command line in
`perfmodel.cli`.
"""
