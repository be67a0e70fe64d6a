"""The price of tokens on devices that are paid by the hour."""

from typing import TypeVar

from perfmodel.operations import Array

Rate = TypeVar("Rate", float, Array)
SECONDS_PER_HOUR = 3600.0
MILLION = 1e6


def dollars_per_million_tokens(dollars_per_device_hour: float, devices: int, tokens_per_s: Rate) -> Rate:
    """The price in dollars of a million output tokens.

    - devices: number of all paid devices, including idle ones.
    - tokens_per_s: output tokens per second of all devices together, above 0.
    """
    dollars_per_s = dollars_per_device_hour * devices / SECONDS_PER_HOUR
    return MILLION * dollars_per_s / tokens_per_s
