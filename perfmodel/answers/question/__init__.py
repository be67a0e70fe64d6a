"""What is asked: arguments, how they are read, and the scenario they resolve to."""
