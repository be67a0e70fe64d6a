"""Chooses the layout, draft, KV budget, gamma and batch for one workload, and writes the command lines of the
engine.
"""
