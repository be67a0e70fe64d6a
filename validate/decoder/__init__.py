"""A small, fast sparse-KV speculative decoder in torch: the system that `perfmodel` predicts.

For a chain that the target drafts for itself, read these modules in order: `speculative` (the loop), `state`
(the state of each sequence), `drafts` (proposes tokens), `runner` (a model with its cache), `model` (one
forward pass), `attention` and `cache` (the reads of a pass), `kv.base` and `kv.snapkv` (the reads of a sparse
draft), `sampling` (accepts tokens). The other modules that these ten call are formulas or containers:
`pointwise`, `shard`, `generation`, `request`, `fp8` (numbers of eight bits).

Other drafts are `ngram`, `tree` and `eagle`. `factory` makes any of them, `graphs` captures it.
"""
