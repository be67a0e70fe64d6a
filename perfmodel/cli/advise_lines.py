"""Prints the server command lines of ``perfmodel advise``: for the choice, an optional draft, and
alternatives.
"""

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.likely import draft_to_measure, named_to_measure
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.servers import servers
from perfmodel.cli.advise_words import draft_text
from perfmodel.cli.output import say, say_whole
from perfmodel.specs import serving_engines


def say_lines(a: Advice) -> None:
    """Prints the command line of the choice, that of its optional draft, and those of the alternatives. If
    the answer is undecided, a sentence before them says which server to run first, with its command line.
    """
    chosen = None
    if a.run_first is not None:
        say(f"{a.run_first}.", "bold")
        if a.first_line is not None:
            _say_first(a, a.first_line)
    if a.serve is not None:
        chosen = _say_choice(a)
    elif a.chosen is not None and a.calibration is not None:
        _say_no_line(_engine(a), a.option or a.chosen)
    for alternative in a.alternatives:
        if alternative.line is None:
            say(f"{alternative.text}.")
        elif alternative.line not in (chosen, a.first_line):
            say(f"{alternative.text}:")
            _say_line(alternative.servers, alternative.line)


def _say_first(a: Advice, line: str) -> None:
    """Prints the command line of the server to run first, and the words before that of the choice.

    - line: this command line.
    """
    same = next((each for each in a.alternatives if each.line == line), None)
    if same is not None:
        say(f"{same.text}:")
        _say_line(same.servers, line)
    elif a.chosen is not None:
        _say_line(a.chosen.replicas, line)
    if a.chosen is not None:
        say("The choice:" if a.chosen.gamma else "The choice, without a draft:")


def _engine(a: Advice) -> str:
    """The name of the answer's engine; empty without a calibration."""
    return a.calibration.stack.partition(" ")[0] if a.calibration else ""


def _say_choice(a: Advice) -> str | None:
    """Prints the command lines of the choice and of its optional draft. Returns the first one; None if it is
    not known.
    """
    assert a.serve is not None
    assert a.chosen is not None
    word = _engine(a)
    line = a.serve.lines.get(word)
    if line is not None:
        _say_line(a.chosen.replicas, line)
    option = a.serve_option.lines.get(word) if a.serve_option is not None else None
    if option is not None and option not in (line, a.first_line):
        say("The best baseline, which the engine runs:" if line is None else _why_option(a))
        # the number of servers is that of the second line's own configuration (see `Advice.serve_option`)
        other = a.option or (a.baseline if a.chosen.gamma else None) or a.chosen
        _say_line(other.replicas, option)
    # the notes of the server with the draft say why there is no line, or are about this engine alone
    if line is None or servers()[word].serves_files or servers()[word].alone:
        drafts = a.serve if a.chosen.gamma else a.serve_option or a.serve
        say("; ".join(drafts.notes), "dim")
    elif a.verdict == "unknown_acceptance" and a.run_first is None:
        say("Start without a draft. Measure the acceptance of a draft, then decide.")
    if line is not None and word in a.serve.remarks:
        say(f"{a.serve.remarks[word]}.")
    return line


def _say_no_line(word: str, pick: Pick) -> None:
    """Prints that no command line of a serving engine is known, and the engine's name for the draft."""
    engine = serving_engines().get(word)
    if engine is None:
        return
    draft = engine.drafts.get(pick.draft or "")
    named = "" if draft is None else f"; its name for the draft is {draft.method}, of {pick.gamma} tokens"
    say(f"No command line is known for {engine.title}{named}.")


def _why_option(a: Advice) -> str:
    """The purpose of the second command line."""
    if a.option is not None:
        return f"With {draft_text(a.option)}, to compare on your own requests:"
    if a.close_with_draft:
        return "Without a draft, to compare on your own requests:"
    if (usual := draft_to_measure(a.query, a.likely)) is not None:
        return f"To measure {usual.draft}, which gains even with a low acceptance for its kind:"
    named = named_to_measure(a.query, a.unmeasured)
    draft = "the draft"
    if named is not None:
        draft = f"{named.draft}, which pays off from alpha {named.smallest_alpha:.2f}"
    return f"To measure {draft}:"


def _say_line(servers_to_start: int, line: str) -> None:
    """Prints the command line of a server, and the number of servers to start if there are several."""
    if servers_to_start > 1:
        say(f"Start {servers_to_start} of these behind a router:")
    say_whole(line)
