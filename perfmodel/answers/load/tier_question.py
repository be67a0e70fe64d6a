"""The words of a question about a tier of caches."""

from perfmodel.errors import refuse


def parse_tier(given: object, flag: str) -> str:
    """Reads ``host``, ``c2c``, ``nvme`` or ``remote:RATE,FLOOR``. Raises InputError."""
    text = str(given).strip().lower()
    remote_tier(text, flag)
    return text


def remote_tier(text: str, flag: str) -> tuple[float, float] | None:
    """GB/s and seconds of a remote tier; None for a named tier."""
    if text in ("host", "c2c", "nvme"):
        return None
    word, _, numbers = text.partition(":")
    refusal = refuse(flag, None, "host, c2c, nvme or remote:GB/S,SECONDS", text)
    try:
        rate, floor_s = map(float, numbers.split(","))
    except ValueError:
        raise refusal from None
    if word != "remote" or not 0 < rate <= 1e6 or not 0 <= floor_s <= 1e6:
        raise refusal
    return rate, floor_s
