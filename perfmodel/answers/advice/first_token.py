"""Applies a question's bound on TTFT in `advise` without a load. The bound is for one prompt on an idle
server.
"""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Candidates, Skip
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.text import seconds

LEAST_OUTPUT = 2
"""Number of output tokens of the request. It is the smallest number that `traffic` accepts."""


def within_ttft(question: AdviseQuery, candidates: Candidates) -> Candidates:
    """The candidates on layouts that meet the bound on TTFT. All other candidates are added to the skipped
    ones.
    """
    if question.max_ttft_ms is None:
        return candidates
    kept = []
    skips = []
    for c in candidates.baselines:
        ttft_s = _ttft_alone_s(question, c)
        if ttft_s is None:
            skips.append(Skip.of_all(f"{c.layout.label()}: a prompt and its output do not fit"))
        elif ttft_s * 1e3 > question.max_ttft_ms:
            why = f"{c.layout.label()}: a prompt of {question.context} tokens alone takes {seconds(ttft_s)}"
            skips.append(Skip.of_all(why))
        else:
            kept.append(c)
    layouts = {c.layout for c in kept}
    drafted = [c for c in candidates.drafted if c.layout in layouts]
    return Candidates(kept, drafted, skips + candidates.skips)


def _ttft_alone_s(question: AdviseQuery, candidate: Candidate) -> float | None:
    """TTFT of one prompt of the question's context on an idle server without a draft; None if the prompt does
    not fit in memory.
    """
    layout = candidate.layout.arguments()
    load = {"input_len": question.context, "output_len": LEAST_OUTPUT, "max_concurrency": 1, "slo": None}
    ttft = traffic(question.traffic(gamma=0, **load, **layout)).rows[0].ttft_s
    return None if ttft is None else ttft.mean
