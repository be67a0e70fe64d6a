"""Constants of each kind of kernel, from public tables of timed calls. Each kind is one file."""
