"""The question of many of these tests: Llama-3.1-8B on one H100 with four drafts of stated rates."""

from perfmodel.answers.advice.advise_query import AdviseQuery

RATES = {"self@streamingllm:512": "0.8", "eagle": "0.75/0.65/0.5", "ngram": "0.4x3", "llama-3.2-1b": "0.7"}
"""Draft and KV method -> the acceptance of its positions, as `--rate` reads it."""


def question_with(**changes: object) -> AdviseQuery:
    """Four batches at 16k, with these arguments changed."""
    question = {
        "model": "llama-3.1-8b",
        "hardware": "h100-sxm-80gb",
        "context": 16384,
        "batch": (1, 4, 16, 27),
        "rate": RATES,
        "any_draft": True,
    }
    return AdviseQuery(**(question | changes))
