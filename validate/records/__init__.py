"""Own records: what a measurement file holds, how it is read, and the statistics that are made on reading."""
