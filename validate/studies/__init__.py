"""The studies of this repository, for maintainers. They fit the bundled constants and measure the errors of
answers.

They need the published rows and records of a checkout, so wheels do not contain them. Read them in this
order:

- The costs of serving engines outside their kernels, ``validate calibrate engines``: `parameters` (the fitted
  constants and their expected values), `steps` and `iterations` (the rows), `robust` (the fit), `held_out`
  (fits without some rows, and the intervals that follow), `engines` (runs all of these), `engines_file`.
- Runs of public sources, each predicted without its own source, ``validate calibrate sources``: `public_runs`
  (the rows), `refit` and `left_out` (the fits), `sources`.
- llama.cpp and MLX by device, ``validate calibrate llamacpp`` and ``mlx``: `llamacpp_constants` (the model),
  `llamacpp_passes` and `llamacpp_prompts` (the data and the fits), `llamacpp` (the folds and the result);
  `mlx_kernels` (products of few rows), `mlx`.
- Racks and pools: `rack_rows` (the data), `racks` (the model, the folds and the result), `rack_pools`.
- Simulations of served runs: `traffic` (the rows), `request_fit` (the costs of a request), `traffic_fit`
  (their files), `traffic_figures`.
- Single questions: `memory` (cache sizes that servers logged), `power` (the power that a device draws).
- The accuracy check, ``validate accuracy``: `record` and `inputs` (the recorded figures), `gate` (the
  faults), `page` (docs/accuracy.md).
"""
