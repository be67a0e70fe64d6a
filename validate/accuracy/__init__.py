"""How far predictions are from measurements: comparison, record, page, history and the gate that guards
them.
"""
