"""Every draft cache, small enough to leave most of a prompt out; and what is asked of decoders of every
kind.
"""

import torch

from perfmodel.validate.decoder import KVCache, Model, Request, State, kv, make_decoder

PUBLISHED = "streamingllm:24,own_prefill=true"
METHODS = [
    "full",
    "streamingllm:24",
    PUBLISHED,
    "snapkv:24,window=8",
    "quest:24,page=4",
    "topk:24",
    "retrieval:24,every=3,chunk=4",
    "quantized,bits=4",
]
METHODS += [f"{name}:24" for name in kv.names() if not any(known.startswith(name) for known in METHODS)]


def check_cache(cache: KVCache, model: Model, state: State, behind: int = 1) -> None:
    """It is that of a fresh prefill of all but the newest `behind` tokens."""
    assert torch.equal(cache.lengths, state.length - behind)
    assert int(cache.lengths.max()) <= cache.bound
    fresh = make_decoder(model, Request(len(state.tokens), 128, 1)).target
    fresh.prefill(state.tokens, cache.lengths, 0)
    for row, length in enumerate(cache.lengths.tolist()):
        actual, theirs = (each.kv[:, :, row, :, :length] for each in (cache, fresh.cache))
        torch.testing.assert_close(actual, theirs, rtol=1e-9, atol=1e-9)
