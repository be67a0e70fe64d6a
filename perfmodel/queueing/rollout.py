"""A rollout: all requests arrive at the start, and their answers end one after another."""

import numpy as np

from perfmodel.queueing.load import Lengths
from perfmodel.queueing.replay import Arrivals


def batch_of(lengths: Lengths, count: int, longest: int, seed: int) -> Arrivals:
    """Prompts of one length, and outputs of a log-normal distribution with this mean and standard deviation.

    An output is cut where prompt and output together reach `longest` tokens.
    """
    mean = lengths.output_mean
    variance = np.log1p((lengths.output_std / mean) ** 2)
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - variance / 2.0, np.sqrt(variance), count)
    inputs = np.full(count, round(lengths.input_mean))
    outputs = np.clip(np.round(drawn), 2, longest - inputs[0]).astype(np.int64)
    return Arrivals(np.zeros(count), inputs, outputs)


def at_once(requests: Arrivals, count: int) -> Arrivals:
    """The first `count` requests, all at the start."""
    first = requests.first(count)
    return Arrivals(np.zeros(first.at_s.size), first.input_tokens, first.output_tokens)
