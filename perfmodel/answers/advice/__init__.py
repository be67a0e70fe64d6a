"""Chooses the layout, draft, KV budget, gamma and batch for one workload, and writes the engine's command
lines.
"""
