"""The sign of an error: the logarithm of predicted over measured, for every figure.

It is positive where the prediction is too large, be it a time, a ratio of times or a speedup. A speedup is
the tokens per iteration over the ratio of an iteration to a step. Both are predicted with the measured
tokens, so the error of a speedup is `of_reciprocal` of the error of its ratio, and the reverse.
"""

import math


def log_error(predicted: float, measured: float) -> float:
    """Logarithm of predicted over measured."""
    return math.log(predicted / measured)


def of_reciprocal(error: float) -> float:
    """The log error of a figure from that of a figure to which it is inversely proportional."""
    return -error
