"""This repository's own studies, for its maintainers: how its constants were made, and how far its answers
are off.

They read the published rows and records of a checkout, so no wheel contains them. Read them in this order:

- What serving engines cost beyond their kernels, ``validate calibrate engines``: `parameters` (what is
  fitted, and what is expected of it), `steps` and `iterations` (the rows), `robust` (the fit), `held_out`
  (fits without some rows, and the intervals that follow), `engines` (all of it in one go), `engines_file`.
- Runs of public sources, which are left out whole, ``validate calibrate sources``: `public_runs` (the
  rows), `mixed` and `left_out` (the fits), `sources`.
- The gate, ``validate accuracy``: `record` (what is recorded, with `inputs`), `gate` (what fails), `page`
  (docs/accuracy.md).
"""
