"""Questions about a load, and what `traffic` says of the servers of their answers."""

import shlex
from functools import cache

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_rows import TrafficRow

LOAD = {"input_len": 4000, "output_len": 500, "slo": "ttft:2000,tpot:30"}


@cache
def advised(model: str, hardware: str, request_rate: float) -> Advice:
    """What `advise` says about LOAD; several tests ask the same."""
    return advise(model, hardware, request_rate=request_rate, **LOAD)


def alternative(answer: Advice, words: str) -> Alternative:
    """The alternative with these words."""
    return next(each for each in answer.alternatives if words in each.text)


def seats_of(answer: Advice) -> dict[str, int]:
    """The largest number of requests at once in the printed `traffic` command, as an argument."""
    words = shlex.split(answer.traffic_command or "")
    return {"max_num_seqs": int(words[words.index("--max-num-seqs") + 1])}


def row_of(model: str, pick: Pick, servers: int, request_rate: float) -> TrafficRow:
    """What `traffic` says about one of several servers of a configuration, which share LOAD at this rate."""
    draft = {"draft": pick.draft, "gamma": pick.gamma} if pick.gamma else {}
    layout = {"tp": pick.tp, "dp": pick.dp, "ep": pick.ep}
    answer = traffic(model, pick.hardware, request_rate=request_rate / servers, **layout, **LOAD, **draft)
    return next(row for row in answer.rows if row.gamma == pick.gamma)
