"""Own measurements: plans, what a record holds (`schema`), where it is (`store`), and its statistics
(`summary`).
"""
