"""A small, fast sparse-KV speculative decoder in torch: the real thing that `perfmodel` predicts.

A chain that the target drafts for itself, in the order in which to read it: `speculative` (the loop), `state`
(what it knows of each sequence), `drafts` (who proposes), `runner` (a model with its cache), `model` (one
forward pass), `attention` and `cache` (what a pass reads), `kv.base` and `kv.snapkv` (what a sparse draft
reads instead), `sampling` (who decides). What these ten call besides is a formula or a container:
`pointwise`, `shard`, `generation`, `request`, `fp8` (numbers of eight bits).

Other drafts are `ngram`, `tree` and `eagle`; `factory` makes any of them, `graphs` captures it.
"""
