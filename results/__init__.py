"""Numbers that were measured: published ones under published/, own measurements by machine."""
