"""Functions that answer the questions of users, such as `whatif`. `perfmodel.cli` has a command for each of
them.
"""
