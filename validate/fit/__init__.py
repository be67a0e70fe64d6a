"""From measured points to a calibration: operations counted once, least squares, refits without a fold."""
