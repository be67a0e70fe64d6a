"""The speed of a server, from its own log or page of metrics."""

from dataclasses import dataclass
from statistics import median

from perfmodel.validate.engine.acceptance.prometheus import total
from perfmodel.validate.engine.logged_load import LoggedLoad
from perfmodel.validate.engine.pastes.llama_server_log import logged

_TPOT = "vllm:request_time_per_output_token_seconds"
"""Histogram of the seconds per output token of each request."""
_GAPS = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
"""Histograms of the seconds per iteration, as a client sees them. The second is the name before vLLM 0.11."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed and the load of a server.

    - tpot_s: seconds per output token of a running request.
    - waiting: number of waiting requests.
    - prompt_tokens_per_s: prompt tokens that it reads per second.
    - partly_idle: whether the log has only intervals in which the server was partly idle.
    """

    tpot_s: float
    waiting: float
    prompt_tokens_per_s: float = 0.0
    partly_idle: bool = False

    @classmethod
    def of(cls, where: str, text: str, gained: float = 1.0) -> "Pace | None":
        """The speed in a log or on a page of metrics; None if the text states none.

        - gained: the tokens per iteration.
        """
        return (
            _of_lines(text)
            or _of_answers(where, text)
            or _of_vllm_page(where, text, gained)
            or _of_sglang_page(where, text)
        )


def _of_lines(text: str) -> Pace | None:
    """The speed in log lines that state the throughput and the number of running requests."""
    load = LoggedLoad.of(text)
    if load is None:
        return None
    return Pace(load.tpot_s, load.waiting, load.prompt_tokens_per_s, load.partly_idle)


def _of_answers(where: str, text: str) -> Pace | None:
    """The median speed of the answers in a log of llama-server, which decodes them one after another."""
    tpots = [answer.tpot_s for answer in logged(where, text) if answer.tpot_s is not None]
    return Pace(median(tpots), waiting=0.0) if tpots else None


def _of_vllm_page(where: str, text: str, gained: float) -> Pace | None:
    """The speed on a metrics page of vLLM: the time per token, or else the time per iteration over
    `gained`.
    """
    tpot_s = _mean(where, text, _TPOT)
    for name in _GAPS:
        if tpot_s is None:
            gap_s = _mean(where, text, name)
            tpot_s = None if gap_s is None else gap_s / gained
    if tpot_s is None:
        return None
    return Pace(tpot_s, total(where, text, "vllm:num_requests_waiting"))


def _of_sglang_page(where: str, text: str) -> Pace | None:
    """The speed on a metrics page of SGLang. The running requests share the throughput."""
    tokens_per_s = total(where, text, "sglang:gen_throughput")
    running = total(where, text, "sglang:num_running_reqs")
    if not tokens_per_s or not running:
        return None
    return Pace(running / tokens_per_s, total(where, text, "sglang:num_queue_reqs"))


def _mean(where: str, text: str, histogram: str) -> float | None:
    """The mean of a histogram on a page; None if the page does not have this histogram, or if it is empty."""
    count = total(where, text, f"{histogram}_count")
    return total(where, text, f"{histogram}_sum") / count if count else None
