"""Defines the log error of every figure: log(predicted / measured).

It is positive if the predicted time, ratio of times or speedup is too large. A speedup is the tokens per
iteration divided by the ratio of an iteration to a step. Predictions use the measured tokens per iteration.
The error of a speedup is therefore `of_reciprocal` of the error of its ratio, and vice versa.
"""

import math


def log_error(predicted: float, measured: float) -> float:
    """The log error: log(predicted / measured)."""
    return math.log(predicted / measured)


def of_reciprocal(error: float) -> float:
    """The log error of a figure, from the log error of a figure to which it is inversely proportional."""
    return -error
