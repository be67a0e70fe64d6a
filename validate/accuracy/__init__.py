"""The distance of predictions from measurements: comparison, record, page and gate."""
