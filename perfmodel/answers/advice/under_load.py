"""`advise` under a load: chooses the number of GPUs, the layout and the draft from the predictions of
`traffic`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perfmodel.answers.advice.advice import Advice, Objective
from perfmodel.answers.advice.advise_arguments import FILLING
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.beside_load import beside_load, smaller_cache
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.insufficient import Insufficient
from perfmodel.answers.advice.load_decision import LoadDecision, decide_under_load
from perfmodel.answers.advice.load_reasons import load_reason
from perfmodel.answers.advice.load_search import LoadSearch
from perfmodel.answers.advice.margins import Robustness
from perfmodel.answers.advice.on_off import on_off
from perfmodel.answers.advice.one_request import at_batch
from perfmodel.answers.advice.one_server import line_of, of_other_weights, point_speedup, serve
from perfmodel.answers.advice.other_texts import other_texts
from perfmodel.answers.advice.own_layer import own_layer
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.pools.option import PoolAdvice
from perfmodel.answers.advice.pools.search import advise_pools
from perfmodel.answers.advice.run_first import run_first
from perfmodel.answers.advice.searched_layouts import over_nodes
from perfmodel.answers.advice.served import Served
from perfmodel.answers.advice.served_pick import pick_under_load
from perfmodel.answers.advice.shorter_draft import shorter_draft
from perfmodel.answers.advice.smaller_servers import beside_cache, smaller_servers
from perfmodel.answers.advice.switched_servers import with_other_backend
from perfmodel.answers.load.completed import check_positions
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.remedies import used_backend
from perfmodel.answers.text import Note
from perfmodel.specs import load_model


@dataclass(frozen=True, slots=True)
class Found:
    """The best servers for a load, from which the answer of `advise` is made. If the question does not state
    the number of GPUs, the choice has the smallest number that serves the load within the limits. On these
    GPUs, the choice is the layout and draft with the shortest mean time of a request.
    """

    search: LoadSearch
    decision: LoadDecision
    pools: PoolAdvice | None

    @classmethod
    def of(cls, question: AdviseQuery) -> "Found":
        """Searches the servers. Raises InputError for requests with more tokens than the model has
        positions.
        """
        question = _at_its_context(question)
        candidates = find_candidates(question)
        pools = None
        if question.searches_pools:
            pools, candidates = advise_pools(question, candidates)
        search = LoadSearch.of(question, candidates)
        if not search.sufficient and (larger := over_nodes(question)):
            search = LoadSearch.of(question, find_candidates(question, larger))
        return cls(search, decide_under_load(search), pools)

    @property
    def pick(self) -> Pick | None:
        """The configuration of the choice; None if no servers can serve the load."""
        return _pick(self.decision.chosen, self.search.question)

    @property
    def throughput_interval(self) -> tuple[float, float] | None:
        """The 90 % interval of the tokens/s of one server of the choice; None if it is not known."""
        chosen = self.decision.chosen
        return None if chosen is None else chosen.row.throughput_interval

    @property
    def line(self) -> str | None:
        """The command line of a server of the choice; None if there is none."""
        chosen = self.decision.chosen
        lines = None if chosen is None else serve(self.search.question, chosen.point, chosen.started_seats)
        return None if lines is None or chosen is None else line_of(lines, chosen.point)

    def answer(self) -> Advice:
        """The whole answer, with alternatives and warnings."""
        return _answer(self.search, self.decision, self.pools)


def _answer(search: LoadSearch, decision: LoadDecision, pools: PoolAdvice | None) -> Advice:
    """The answer, with the comparison of pools if there is one."""
    answer = (
        _insufficient(search) if decision.chosen is None else _sufficient(search, decision, decision.chosen)
    )
    if pools is not None and (nearest := answer.nearest) is not None:
        pick = nearest.pick
        servers = Instances(pick.replicas, pick.tp, pick.dp, pick.ep)
        pools = pools.as_replayed(str(servers), pick.gamma, nearest.request_rate, nearest.alone)
    if pools is not None and decision.chosen is None:
        pools = pools.without_fewest_of_one  # the alternatives name them, from all layouts and with replays
    return replace(answer, pools=pools)


def _at_its_context(question: AdviseQuery) -> AdviseQuery:
    """The question at the context of a request in the middle of its output. Raises InputError if a request
    has more tokens than the model has positions.
    """
    assert question.input_len is not None
    assert question.output_len is not None
    stated = f"--input-len {question.input_len} and --output-len {question.output_len}"
    check_positions(question.input_len + question.output_len, stated, load_model(question.model))
    return replace(question, context=question.input_len + question.output_len // 2)


def _sufficient(search: LoadSearch, decision: LoadDecision, chosen: Served) -> Advice:
    """The answer with a choice."""
    question = search.question
    option = decision.option
    line = serve(
        question, chosen.point, chosen.started_seats, undecided=decision.verdict == "unknown_acceptance"
    )
    line_to_try = None
    if (other := option or decision.without_draft) is not None:
        line_to_try = serve(question, other.point, other.started_seats)
    elif decision.to_measure is not None:
        line_to_try = serve(question, decision.to_measure, chosen.started_seats)
    runner_up = decision.others[0] if decision.others else None
    layouts = [pick_under_load(served, question) for served in decision.layouts]
    switch = None if decision.rival is None else on_off(decision.rival.point, question)
    tuned = of_other_weights(question, chosen.point)
    texts = other_texts(question, search.candidates.drafted)
    notes = (*tuned, *chosen.many_seats, *_of_a_job(question), *texts)
    unused = (*search.candidates.left_out(question), *search.candidates.not_run(question))
    warnings = (*unused, *chosen.warnings, *notes)
    choice = Advice(
        query=question,
        verdict=decision.verdict,
        reason=load_reason(question, decision, chosen),
        objective=Objective.of(question),
        chosen=pick_under_load(chosen, question),
        runner_up=_pick(runner_up, question),
        option=_pick(option, question),
        baseline=_pick(decision.baseline, question),
        layouts=tuple(layouts),
        on_off=switch,
        robustness=_at_its_batch(question, option or chosen),
        serve=line,
        serve_option=line_to_try,
        traffic_command=chosen.command,
        calibration=Calibrated.of(search.candidates.baselines[0].scenario),
        attention_backend=used_backend(chosen.candidate.scenario),
        warnings=warnings,
    )
    smaller = list(smaller_servers(question, chosen))
    if (cached := smaller_cache(question, chosen)) is not None:
        smaller = list(beside_cache(smaller, cached))
    switched = list(with_other_backend(question, chosen))
    alternatives = (
        *(alternative for _, alternative in switched),
        *beside_load(question, decision, chosen, smaller),
        *_own_layer(question, decision),
    )
    first = None
    several = line_to_try is not None or any(each.line for each in alternatives)
    if several and decision.verdict == "unknown_acceptance":
        with_draft = None
        if line_to_try is not None and decision.to_measure is not None:
            with_draft = line_of(line_to_try, decision.to_measure)
        plain = None if line is None else line_of(line, chosen.point)
        first = run_first(question, decision.likely, (), None, plain, with_draft)
    return replace(
        choice,
        alternatives=alternatives,
        better_changes=(*(change for change, _ in switched), *(each.change(chosen) for each in smaller)),
        run_first=None if first is None else first.text,
        first_line=None if first is None else first.line,
        likely=decision.likely,
        shorter=shorter_draft(question, (option or chosen).point),
        candidates=len(search.served),
        skipped=tuple(search.candidates.skips),
    )


def _at_its_batch(question: AdviseQuery, drafting: Served) -> Robustness | None:
    """The speedup of a draft over the baseline at the mean batch of its servers; None without a draft."""
    if not drafting.row.gamma:
        return None
    speedup, interval = point_speedup(question, drafting.at_its_batch(question))
    robust = None if interval is None else interval[0] > 1.0
    return Robustness(speedup, interval, None, None, None, None, robust)


def _own_layer(question: AdviseQuery, decision: LoadDecision) -> Iterator[Alternative]:
    """The target's own MTP layer beside another draft, at the mean batch of the best baseline."""
    if decision.verdict == "unknown_acceptance" or (baseline := decision.baseline) is None:
        return
    point = baseline.at_its_batch(question)
    own = own_layer(at_batch(question, point.batch), point, question, baseline.started_seats)
    if own is not None:
        yield own


def _of_a_job(question: AdviseQuery) -> Iterator[Note]:
    """A note about the load of an offline job."""
    if question.fills:
        yield Note(
            f"an offline job: {FILLING} clients per GPU keep the GPUs full, so TTFT is mainly the wait for a "
            "seat, and fewer seconds per request mean more tokens/s"
        )


def _insufficient(search: LoadSearch) -> Advice:
    """The answer if no servers suffice."""
    question = search.question
    baselines = search.candidates.baselines
    insufficient = Insufficient.of(search)
    best = insufficient.nearest
    nearest = None if best is None else best.nearest
    instead = insufficient.instead()
    first = instead.run_first()
    calibration = Calibrated.of(baselines[0].scenario) if baselines else None
    warnings = (*search.candidates.left_out(question), *insufficient.warnings)
    return Advice(
        query=question,
        verdict="infeasible",
        reason=insufficient.why.reason,
        objective=Objective.of(question),
        nearest=nearest,
        alternatives=instead.alternatives,
        run_first=None if first is None else first.text,
        first_line=None if first is None else first.line,
        candidates=len(search.served),
        skipped=tuple(search.candidates.skips),
        calibration=calibration,
        warnings=warnings,
    )


def _pick(served: Served | None, question: AdviseQuery) -> Pick | None:
    return None if served is None else pick_under_load(served, question)
