"""Models: shape, parameters and number formats."""
