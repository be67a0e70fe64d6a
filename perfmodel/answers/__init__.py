"""The functions of the Python interface, such as `whatif`. Each function answers one kind of question, and
`perfmodel.cli` has a command with the same name.
"""
