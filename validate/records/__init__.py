"""Own measurements: plans, the content of a record (`schema`), its place (`store`) and its statistics
(`summary`).
"""
