"""The output of a decoder, and the acceptance of its draft tokens."""

from dataclasses import dataclass

from perfmodel.validate.decoder.state import State


@dataclass(frozen=True)
class Generation:
    """tokens: the output of each sequence, including an EOS. histograms: of each sequence, see `State`."""

    tokens: list[list[int]]
    histograms: list[list[int]]

    @property
    def histogram(self) -> list[int]:
        """Iterations, over all sequences, in which 0, 1, ... gamma draft tokens were accepted."""
        return [sum(counts) for counts in zip(*self.histograms, strict=True)]

    @property
    def iterations(self) -> int:
        """Iterations of the loop until the last sequence was finished."""
        return max(map(sum, self.histograms))

    @property
    def tokens_per_iteration(self) -> float:
        """Mean tokens gained per iteration and sequence, without those that an EOS or the limit cut off; 0
        without any.
        """
        return sum(len(row) - 1 for row in self.tokens) / max(
            1, sum(self.histogram)
        )  # the first is prefill's

    @property
    def alpha(self) -> float | None:
        """Rate at which a draft token is accepted if all before it were; None if none was drafted."""
        accepted = sum(j * count for j, count in enumerate(self.histogram))
        tried = accepted + sum(self.histogram[:-1])
        return accepted / tried if tried else None


def collect(state: State, prompts: list[list[int]]) -> Generation:
    """Bring the result to the host."""
    rows, lengths = state.tokens.tolist(), state.length.tolist()
    new = [row[len(prompt) : length] for row, prompt, length in zip(rows, prompts, lengths, strict=True)]
    return Generation(new, state.histogram.tolist())
