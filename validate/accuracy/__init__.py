"""The distance of predictions from measurements: comparison, record, page, history and the gate."""
