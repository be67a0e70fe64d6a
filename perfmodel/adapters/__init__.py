"""Adapters of the predictor to the interfaces of other tools, with one module for each interface
(docs/predictor.md).
"""
