"""Studies for maintainers of this repository. They fit the bundled constants and measure the errors of
predictions.

They need the published measurements and the records of a clone, so wheels do not contain them. Read them in
this order:

- The costs of serving engines outside their kernels, ``validate calibrate engines``: `parameters` (the fitted
  constants and their expected values), `steps` and `iterations` (the data), `robust` (the fit), `held_out`
  (fits without some rows), `held_out_errors` and `held_out_intervals` (the intervals that follow), `engines`
  (runs all of these), `engines_file` (the result).
- Public runs, each predicted without its own source, ``validate calibrate sources``: `public_runs` (the
  data), `public_answers` (the predictions), `refit` and `left_out` (the fits), `widths` (the intervals),
  `sources` (runs all of these), `sources_file` (the result).
- llama.cpp and MLX by device, ``validate calibrate llamacpp`` and ``mlx``: `llamacpp_constants` (the model),
  `llamacpp_passes` and `llamacpp_prompts` (the data and the fits), `llamacpp` (the folds and the result);
  `mlx_kernels` and `mlx_shares` (products of few rows), `mlx`.
- Racks and pools: `rack_rows` (the data), `rack_fit` (the fit), `rack_errors` and `rack_pools` (the compared
  figures), `racks` (the folds and the result).
- Served runs: `served_runs` (the data), `traffic` (their simulation), `request_fit` (the costs of a request),
  `traffic_fit` (runs the fits and writes the files), `traffic_figures` (the errors).
- Single studies: `memory_logs` and `memory` (cache sizes that servers logged), `power` (the power that a
  device draws).
- The accuracy check, ``validate accuracy``: `record` and `inputs` (the recorded figures), `gate` (the
  faults), `page` (docs/accuracy.md).
"""
