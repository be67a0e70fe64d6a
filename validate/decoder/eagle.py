"""EAGLE-3 heads: one layer over the target's features of a token and the embedding of the next token.

The *pair* of position p has the features of position p and the token at position p + 1. If the target has run
position p, the features are a projection of three of the target's hidden states. Otherwise, they are the
head's own output for the previous pair. Queries, keys and values are projected from the concatenated
embedding and features.

Source: Li et al. 2025, arXiv 2503.01840. The order of operations and the names of weights are those of vLLM's
models/llama_eagle3.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from perfmodel.errors import InputError
from perfmodel.specs import ModelSpec
from perfmodel.validate.decoder.drafts import ViewRunner
from perfmodel.validate.decoder.kv.base import View
from perfmodel.validate.decoder.model import Attend, Model, Projected
from perfmodel.validate.decoder.pointwise import Rotary, norm
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.decoder.state import State


class Features:
    """Collects the inputs of some layers of the target while its passes run. The concatenated inputs of a
    token are its features.
    """

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.layers = layers
        self._parts: dict[int, Tensor] = {}
        self._passes: list[Tensor] = []

    def __call__(self, layer: int, hidden: Tensor) -> None:
        """Stores hidden [batch, n, width], the input of a layer. The runner calls this for every layer."""
        if layer in self.layers:
            self._parts[layer] = hidden
        if layer == max(self.layers):
            self._passes.append(torch.cat([self._parts[layer] for layer in self.layers], -1))

    def take(self, tokens: int) -> Tensor:
        """Returns the features of the latest `tokens` of each sequence, [batch, tokens, layers x width], and
        clears all features.
        """
        passes = self._passes
        self._passes = []
        return torch.cat(passes, 1)[:, -tokens:]


class HeadModel(Model):
    """The head as a model of one layer with the target's embedding.

    Before a pass, `give` receives the features of the pairs of the pass. After the pass, `output` has the
    head's own features for the next pairs.

    - to_target [vocab]: the target's token for each token of the head.
    """

    output: Tensor
    to_target: Tensor
    _given: Tensor
    _first: Tensor

    def __init__(self, spec: ModelSpec, target: ModelSpec) -> None:
        super().__init__(spec.replace(tie_word_embeddings=False))
        count = target.num_hidden_layers
        # heads are trained with an early, a middle and a late layer
        self.features = Features((2, count // 2, count - 3))
        if len({*self.features.layers}) < 3 or min(self.features.layers) < 0:
            raise InputError(f"--draft: a head takes 3 of the target's layers, and {target.name} has too few")
        hidden = spec.hidden_size
        qkv = self.layers[0].qkv
        self.layers[0].qkv = nn.Linear(2 * hidden, qkv.out_features, bias=qkv.bias is not None)
        self.embedding_norm = nn.Parameter(torch.empty(hidden))
        self.project = nn.Linear(3 * target.hidden_size, hidden, bias=False)
        self.target_vocab = target.vocab_size

    def give(self, hidden: Tensor, first: Tensor) -> None:
        """Sets the features [batch, n, width] of the pairs at positions first [batch], first + 1, ..."""
        self._given = hidden
        self._first = first

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        attend: Attend,
        rotary: Rotary | None = None,
        tap: object = None,
    ) -> Tensor:
        """See `Model.forward`. The pass runs pairs, so tokens [batch, n] are the tokens that follow those at
        `positions`.
        """
        layer = self.layers[0]
        eps = self.spec.rms_norm_eps
        index = (positions - self._first[:, None])[..., None].expand(-1, -1, self._given.shape[2])
        hidden = self._given.gather(1, index)
        embedded = norm(F.embedding(tokens, self.embedding), self.embedding_norm, eps)
        x = torch.cat((embedded, norm(hidden, layer.attention_norm, eps)), -1)
        turns = (rotary or self.rotary(tokens.shape[1])).turns(positions, self.dtype)
        out = layer.output(attend(0, Projected(layer, layer.qkv(x), turns, self.pointwise)))
        residual, x = self.pointwise.add_norm(out, hidden, layer.mlp_norm, eps)
        x = layer.mlp(x, self.pointwise)
        self.output, x = self.pointwise.add_norm(x, residual, self.final_norm, eps)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits over the target's vocabulary; minus infinity for tokens that the head cannot draft."""
        head_logits = super().logits(hidden)
        every = head_logits.new_full((*head_logits.shape[:-1], self.target_vocab), -torch.inf)
        return every.index_copy_(-1, self.to_target, head_logits)


class HeadRunner(ViewRunner):
    """Runs a head with its own cache. The features of *pending* pairs come from the last verification, and
    the cache does not yet contain these pairs.

    - features [batch, queries, 3 x width]: the features of the pending pairs.
    - pending [batch]: the number of pending pairs in each sequence.
    - latest [batch, width]: the features for the next pair, as the head's last pass computed them.
    """

    latest: Tensor

    def __init__(self, target: Runner, runner: Runner, head: HeadModel, view: View, queries: int) -> None:
        super().__init__(runner, view, queries, owns_cache=True)
        self.target = target
        target.tap = head.features
        self.head = head
        shape = len(runner.cache.lengths), queries, head.project.in_features
        self.features = torch.zeros(shape, dtype=head.dtype, device=head.device)
        self.pending = torch.ones_like(runner.cache.lengths)

    def prefill(self, tokens: Tensor, lengths: Tensor, observed: Observed) -> None:
        """Runs all complete pairs of the prompts. The last position of a prompt has no complete pair until
        the next token is known.
        """
        taken = self.head.features.take(tokens.shape[1])
        self.head.give(self.head.project(taken), torch.zeros_like(lengths))
        self.runner.prefill(tokens[:, 1:], lengths - 1, self.view.window)
        self.features[:, 0] = taken[self.runner.cache.rows[:, 0], lengths - 1]
        self.pending.fill_(1)
        self.view.build(observed)

    def commit(self, count: Tensor) -> None:
        """Keeps the features of the newly committed tokens for the next iteration.

        - count [batch]: the number of these tokens.
        """
        self.features.copy_(self.head.features.take(self.features.shape[1]))
        self.pending.copy_(count)

    def first_step(self, state: State) -> Tensor:
        """See `ViewRunner.first_step`. This pass runs the pending pairs."""
        target = self.target.cache
        rows = self.runner.cache.rows[:, 0]
        cache = self.runner.cache
        start = target.lengths - self.pending
        cache.set_lengths(start, target.bound)
        self.view.begin()
        self.head.give(self.head.project(self.features), start)
        positions = cache.positions(start + 1, self.features.shape[1])
        hidden = self.run(state.tokens.gather(1, positions))
        newest = (self.pending - 1).clamp(min=0)  # a finished sequence has none
        cache.set_lengths(target.lengths, target.bound)
        self.view.begin()
        self.latest = self.head.output[rows, newest]
        return hidden[rows, newest]

    def next_step(self, step: int, token: Tensor) -> Tensor:
        """See `ViewRunner.next_step`. The head's output replaces the features that the target has not
        computed yet.
        """
        self.head.give(self.latest[:, None], self.runner.cache.lengths + step - 1)
        hidden = self.run(token[:, None], step - 1)
        self.latest = self.head.output[:, 0]
        return hidden[:, 0]
