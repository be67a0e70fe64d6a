"""Answers the questions of users. `perfmodel.cli` has a command for each function that answers a question."""
