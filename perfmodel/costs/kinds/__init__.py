"""The kinds of operations of a pass. Each module has the fields of a kind and its calibrated time."""
