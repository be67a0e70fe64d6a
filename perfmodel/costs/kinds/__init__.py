"""The kinds of operation of a pass, one module each: the fields of a kind, and its calibrated time."""
