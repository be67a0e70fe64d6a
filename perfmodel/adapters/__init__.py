"""Adapters that let other tools use the predictor (docs/predictor.md). Each interface has its own module."""
