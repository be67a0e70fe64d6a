"""The predictor in the interfaces of other tools. Each module is one interface (docs/predictor.md)."""
