"""Acceptance figures in the printed output of vLLM. Its example ``spec_decode.py`` prints ``num_drafts: 27``
and then ``acceptance at token 0: 0.81``. ``vllm bench serve`` prints ``Drafts: 27`` and then ``Position 0:
81.00``.
"""

import re
from dataclasses import dataclass

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.acceptance.contexts import Contexts
from perfmodel.validate.engine.acceptance.counters import Counters
from perfmodel.validate.engine.text import floats, is_count

OF_EXAMPLE = "acceptance at token "
"""A line with the rate of a position begins with these words. The rate is the number of drafts whose token at
this position was accepted, divided by the number of all drafts.
"""
OF_BENCH = "Per-position acceptance (%)"
"""The heading above the rates of ``vllm bench serve``."""


@dataclass(frozen=True, slots=True)
class _Form:
    """The names of the lines in one of the two outputs.

    - most: the rate at which every draft is accepted.
    """

    position: str
    drafts: str
    tokens: str
    most: float


_FORMS = (
    _Form(OF_EXAMPLE, "num_drafts", "num_draft_tokens", 1.0),
    _Form("Position ", "Drafts", "Draft tokens", 100.0),
)
_LINE = re.compile(r"^\s*([A-Za-z][\w ]*?):\s+(\S+)\s*$", re.M)


def printed_counters(where: str, text: str) -> Counters | None:
    """The counters in the printed output of vLLM; None for any other text. Raises InputError."""
    lines = _LINE.findall(text)
    for form in _FORMS:
        rates = [(name, value) for name, value in lines if name.startswith(form.position)]
        if rates:
            return _counters(where, form, rates, dict(lines))
    return None


def printed_contexts(where: str, text: str) -> Contexts | None:
    """The contexts of the mean request in the output of ``vllm bench serve``; None without its totals."""
    printed = dict(_LINE.findall(text))
    names = ("Total input tokens", "Total generated tokens", "Successful requests")
    prompts, outputs, requests = floats(printed.get(name, "nan") for name in names)
    if not requests:
        return None
    return Contexts.of_requests([prompts / requests], [outputs / requests])


def _counters(where: str, form: _Form, rates: list[tuple[str, str]], printed: dict[str, str]) -> Counters:
    """The counters in the printed lines. Raises InputError.

    - rates: names and values of the lines with rates.
    - printed: name -> value of every line.
    """
    names = [name for name, _ in rates]
    if names != [f"{form.position}{position}" for position in range(len(rates))]:
        raise refuse(where, f"{form.position}N", "N = 0, 1, 2, ...", names)
    survival = floats(rate for _, rate in rates)
    if not all(is_count(rate) and rate <= form.most for rate in survival):
        allowed = f"rates from 0 to {form.most:g}"
        raise refuse(where, f"{form.position}N", allowed, [rate for _, rate in rates])
    if form.drafts not in printed or form.tokens not in printed:
        raise InputError(f"{where}: must hold the lines {form.drafts} and {form.tokens} beside its rates")
    drafts, tokens = floats((printed[form.drafts], printed[form.tokens]))
    if not is_count(drafts) or not is_count(tokens):
        counts = [printed[form.drafts], printed[form.tokens]]
        raise refuse(where, f"{form.drafts}, {form.tokens}", "counts", counts)
    return Counters(drafts, tuple(rate / form.most * drafts for rate in survival), tokens)
