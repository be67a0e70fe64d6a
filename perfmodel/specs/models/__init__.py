"""Models: their shapes, parameters and number formats."""
