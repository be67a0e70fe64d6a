"""This repository's own studies, for its maintainers: how its constants were made, and how far its answers
are off.

They read the published rows and records of a checkout, so no wheel contains them. Read them in this order:

- What serving engines cost beyond their kernels, ``validate calibrate engines``: `parameters` (what is
  fitted, and what is expected of it), `steps` and `iterations` (the rows), `robust` (the fit), `held_out`
  (fits without some rows, and the intervals that follow), `engines` (all of it in one go), `engines_file`.
- Runs of public sources, which are left out whole, ``validate calibrate sources``: `public_runs` (the
  rows), `mixed` and `left_out` (the fits), `sources`.
- llama.cpp and MLX by device, ``validate calibrate llamacpp`` and ``mlx``: `llamacpp_constants` (the model),
  `llamacpp_passes` and `llamacpp_prompts` (the data and the fits), `llamacpp` (the folds and the result);
  `mlx_kernels` (products of few rows), `mlx`.
- Racks and pools: `rack_rows` (the data), `racks` (the model, the folds and the result), `rack_pools`.
- Served runs replayed: `traffic` (the rows), `request_fit` (the costs of a request), `traffic_fit` (their
  files), `traffic_figures`.
- One question each: `memory` (caches that servers logged), `power` (the power that a device draws).
- The gate, ``validate accuracy``: `record` (what is recorded, with `inputs`), `gate` (what fails), `page`
  (docs/accuracy.md).
"""
