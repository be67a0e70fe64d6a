"""A small, fast sparse-KV speculative decoder in torch: the real thing that `perfmodel` predicts.

Read it in this order: `model` (one forward pass), `cache` and `attention` (what a pass reads), `kv/` (what a sparse
draft reads instead), `drafts` and `ngram` (who proposes), `sampling` (who decides), `speculative` (the loop).
"""
