"""Published and measured acceptance rates."""
