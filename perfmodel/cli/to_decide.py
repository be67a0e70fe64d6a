"""Describes the measurement that decides a verdict that is too close to call."""

import shlex
from dataclasses import fields, replace

from perfmodel.answers.point.judged_length import least_loss
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import OF_SERVER, Query, resolve
from perfmodel.answers.question.rates import GIVEN
from perfmodel.specs import VERSION_SEPARATOR


def to_decide(a: WhatIf, query: Query) -> str:
    """A sentence with the number of tokens per iteration from which the draft pays off, and the command that
    compares a measurement.

    - query: the question as it was given.
    """
    length = ""
    if not a.query.gamma:
        a = _least_loss(replace(query, draft=a.query.draft))
        length = f" at gamma {a.query.gamma}"
    gained = a.acceptance.tokens_per_iteration
    assert gained
    assert a.speedup
    assert a.query.gamma
    most = a.query.gamma + 1
    even = gained / a.speedup
    certain = gained / a.speedup_interval[0] if a.speedup_interval else even
    if even > most:
        counts = f"no acceptance breaks even at gamma {a.query.gamma}"
    elif certain > most:
        counts = f"breaks even at {even:.2f} tokens per iteration{length}, but no acceptance makes it certain"
    else:
        counts = f"breaks even at {even:.2f} tokens per iteration{length}"
        counts += f", certainly pays off from {certain:.2f}"
    return f"{counts}; paste the server's tokens/s with and without the draft into: {_command(a, query)}"


def _least_loss(query: Query) -> WhatIf:
    """The answer for the draft length that loses least.

    - query: a question for which no draft length gains.
    """
    length = least_loss(query, resolve(query))
    assert length is not None
    return whatif(replace(query, gamma=length.gamma))


def _command(a: WhatIf, query: Query) -> str:
    """The command that reads a measurement of this server."""
    words = ["--model", query.model, "--hardware", query.hardware, "--draft", str(a.query.draft)]
    words += ["--context", str(query.context), "--gamma", str(a.query.gamma)]
    defaults = {field.name: field.default for field in fields(Query)}
    for name in (*OF_SERVER, "draft_kv", "acceptance"):
        value = getattr(query, name)
        if value != defaults[name]:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if query.engine:
        engine, _, version = query.engine.partition(VERSION_SEPARATOR)
        words += ["--engine", engine] + (["--version", version] if version else [])
    place = "-" if query.batch == 1 else f"-,batch={query.batch}"
    if a.acceptance.source.startswith(GIVEN):
        place += f",accepted={a.acceptance.tokens_per_iteration:.3g}"
    return f"perfmodel validate engine --from {place} {shlex.join(words)}"
