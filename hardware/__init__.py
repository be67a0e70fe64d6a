"""Data only: vendor facts in gpus/, fitted and published constants in calibrations/."""
