"""Choosing: draft, KV budget, gamma and TP degree for one workload, and the engine's command lines."""
