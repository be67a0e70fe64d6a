"""Questions: their arguments, how they are read, and the scenario to which they resolve."""
