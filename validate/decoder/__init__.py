"""A small, fast speculative decoder with sparse KV caches, written in torch. `perfmodel` predicts its times.

To follow the decoding of a self-draft, read these modules in this order:

1. `speculative`: the loop.
2. `state`: the state of each sequence.
3. `drafts`: the proposed tokens.
4. `runner`: a model with its cache.
5. `model`: one forward pass.
6. `attention` and `cache`: the reads of a pass.
7. `kv.base` and `kv.snapkv`: the reads of a sparse draft.
8. `sampling`: the accepted tokens.

These modules also use `pointwise`, `shard`, `request` and `fp8`. Other drafts are n-grams (in `drafts`) and
the modules `tree`, `two_levels` and `eagle`. `factory` builds a decoder with any draft. `graphs` captures the
iterations as CUDA graphs.
"""

from perfmodel.validate.decoder.attention import CacheSpan
from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.capture import captured
from perfmodel.validate.decoder.factory import make_decoder, watched
from perfmodel.validate.decoder.level_counts import LevelCounts
from perfmodel.validate.decoder.model import Layer, Model, Projected
from perfmodel.validate.decoder.pair import ModelPair
from perfmodel.validate.decoder.prompts import last_tokens, read_prompts
from perfmodel.validate.decoder.random_start import start_random
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.sampling import AcceptedTokens, Sampling, scripted_weights
from perfmodel.validate.decoder.shard import RankShard, joined, local_device
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import Generation, State, collect
from perfmodel.validate.decoder.text import end_tokens, tokenizer
from perfmodel.validate.decoder.tree_counts import TreeCounts
from perfmodel.validate.decoder.weights import RandomWeights, build, load

__all__ = [
    "AcceptedTokens",
    "Decoder",
    "Generation",
    "KVCache",
    "Layer",
    "LevelCounts",
    "Model",
    "ModelPair",
    "Projected",
    "RandomWeights",
    "RankShard",
    "Request",
    "Sampling",
    "CacheSpan",
    "State",
    "TreeCounts",
    "build",
    "collect",
    "end_tokens",
    "joined",
    "last_tokens",
    "load",
    "local_device",
    "make_decoder",
    "read_prompts",
    "captured",
    "scripted_weights",
    "start_random",
    "tokenizer",
    "watched",
]
