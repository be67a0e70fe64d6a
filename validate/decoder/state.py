"""The state of each sequence in the loop: its tokens, their number, and whether the sequence is finished. The
state is on the device.

At the end, `collect` copies the output and the counts of accepted draft tokens to the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from perfmodel.validate.decoder.sampling import AcceptedTokens


@dataclass
class State:
    """The state of a batch.

    - tokens [batch, room]: prompts and outputs. The target's KV cache has all tokens except the newest.
    - length [batch]: the number of tokens of each sequence so far.
    - limit [batch]: the length at which a sequence ends.
    - finished [batch]: whether the sequence has ended.
    - histogram [batch, gamma + 1]: the number of iterations in which 0, 1, ... gamma draft tokens were
      accepted, until the sequence was finished.
    """

    tokens: Tensor
    length: Tensor
    limit: Tensor
    finished: Tensor
    histogram: Tensor
    generator: torch.Generator

    @classmethod
    def from_prompts(
        cls,
        prompts: Sequence[list[int]] | Tensor,
        new_tokens: int,
        gamma: int,
        device: torch.device,
        seed: int,
    ) -> "State":
        """The state before decoding. The rows are padded with zeros, and have room for the output and one
        more iteration.
        """
        rows = pad_sequence([torch.as_tensor(row, device=device) for row in prompts], batch_first=True)
        length = torch.tensor([len(row) for row in prompts], device=device)
        finished = torch.zeros(len(rows), dtype=torch.bool, device=device)
        histogram = torch.zeros(len(rows), gamma + 1, dtype=torch.int64, device=device)
        return cls(
            tokens=F.pad(rows, (0, new_tokens + gamma + 1)),
            length=length,
            limit=length + new_tokens,
            finished=finished,
            histogram=histogram,
            generator=torch.Generator(device).manual_seed(seed),
        )

    def newest(self, n: int) -> Tensor:
        """The last n tokens of every sequence, [batch, n]."""
        offsets = torch.arange(n, device=self.length.device)
        return self.tokens.gather(1, self.length[:, None] - n + offsets)

    def take(self, draft_tokens: Tensor, accepted: AcceptedTokens, eos: Tensor) -> Tensor:
        """Counts the accepted tokens in the histogram. Then appends the accepted tokens of draft_tokens
        [batch, gamma] and the next token (`append`).
        """
        slot = torch.arange(draft_tokens.shape[1] + 1, device=draft_tokens.device)
        is_accepted = accepted.count[:, None] > slot
        self.histogram[:, : len(slot)] += (accepted.count[:, None] == slot) & ~self.finished[:, None]
        padded = F.pad(draft_tokens, (0, 1))
        emitted = torch.where(is_accepted, padded, accepted.next_token[:, None])
        return self.append(emitted, accepted.count + 1, eos)

    def append(self, emitted: Tensor, count: Tensor, eos: Tensor) -> Tensor:
        """Appends the first `count` [batch] of the tokens emitted [batch, n], in place. Tokens after an EOS
        or beyond the limit are dropped, and finished sequences get no tokens.

        Returns the number of appended tokens, [batch].
        """
        offset = torch.arange(emitted.shape[1], device=emitted.device)
        ends = (emitted[..., None] == eos).any(-1)
        until_eos = torch.where(ends.any(1), ends.long().argmax(1) + 1, emitted.shape[1] + 1)
        count = torch.minimum(torch.minimum(count, until_eos), self.limit - self.length)
        count = count.masked_fill(self.finished, 0)
        self.tokens.scatter_(1, self.length[:, None] + offset, emitted)
        self.length.add_(count)
        self.finished.logical_or_((self.length >= self.limit) | (until_eos <= count))
        return count


@dataclass(frozen=True)
class Generation:
    """The result of decoding.

    - tokens: the output of each sequence, including the EOS if there is one.
    - histograms: the histogram of each sequence (see `State`).
    """

    tokens: list[list[int]]
    histograms: list[list[int]]

    @property
    def histogram(self) -> list[int]:
        """The number of iterations in which 0, 1, ... gamma draft tokens were accepted, summed over all
        sequences.
        """
        return [sum(counts) for counts in zip(*self.histograms, strict=True)]

    @property
    def iterations(self) -> int:
        """The number of iterations until the last sequence was finished."""
        return max(map(sum, self.histograms))

    @property
    def tokens_per_iteration(self) -> float:
        """The mean number of output tokens per iteration and sequence; 0 without iterations. Tokens that an
        EOS or the limit cut off do not count.
        """
        decoded = sum(len(row) - 1 for row in self.tokens)  # the first token comes from the prefill
        return decoded / max(1, sum(self.histogram))

    @property
    def alpha(self) -> float | None:
        """The acceptance rate: the share of accepted tokens among the draft tokens whose earlier draft tokens
        were all accepted; None without drafts.
        """
        accepted = sum(j * count for j, count in enumerate(self.histogram))
        tried = accepted + sum(self.histogram[:-1])
        return accepted / tried if tried else None


def collect(state: State, prompts: list[list[int]]) -> Generation:
    """Copies the result to the host."""
    rows = state.tokens.tolist()
    lengths = state.length.tolist()
    new = [row[len(prompt) : length] for row, prompt, length in zip(rows, prompts, lengths, strict=True)]
    return Generation(new, state.histogram.tolist())
