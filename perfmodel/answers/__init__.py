"""Answers: one file for each question of a user. `perfmodel.cli` has the same verbs for the command line."""
