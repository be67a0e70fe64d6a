"""Makes the rows of a question about a server, for each load. The closed form computes them, or replays if
the closed form is not accurate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfmodel.answers.load.acceptance_along import along_turns
from perfmodel.answers.load.closed_rows import closed_rows
from perfmodel.answers.load.completed import check_lengths, completed
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.ladder import Ladder
from perfmodel.answers.load.load_verdict import TrafficVerdict, verdict_of
from perfmodel.answers.load.mixed_classes import ClassRow
from perfmodel.answers.load.replayed_rows import check_size, replayed_rows
from perfmodel.answers.load.rising import never_falling
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.question import Query, resolve, resolve_costs, slowing
from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.policies import Choice, Fixed, Replica
from perfmodel.queueing.prefix import Reuse
from perfmodel.queueing.pricing import step_times
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import UnknownAcceptance
from perfmodel.speculation import Scenario, check_draft_length


@dataclass(frozen=True, slots=True)
class Priced:
    """A question, with the times of the passes that its rows need.

    - question: as `completed` returns it.
    - spread_source: source of the standard deviation of acceptance between requests.
    - query: the same question in the form of `whatif`, from which the scenario is resolved.
    - known: whether the acceptance of the draft is known. If the acceptance is unknown, only the baseline is
      predicted.
    - choices: the draft lengths and policies.
    """

    question: TrafficQuery
    spread_source: str
    query: Query
    scenario: Scenario
    known: bool
    replica: Replica
    choices: list[Choice]

    @classmethod
    def of(cls, question: TrafficQuery) -> "Priced":
        """Completes a question and computes the times of its passes. Raises InputError for wrong input."""
        question, spread_source = completed(question)
        query = _query(question)
        scenario, known = _scenario(question, query)
        check_lengths(question, scenario.target)
        replica = replica_of(question, scenario, known)
        choices = choices_of(question, replica) if known else list(Fixed(0).choices(replica))
        return cls(question, spread_source, query, scenario, known, replica, choices)

    @property
    def mean_context(self) -> float:
        """The context of a request in the middle of its output, in tokens."""
        lengths = self.question.lengths
        return lengths.input_mean + lengths.output_mean / 2.0

    def at(self, loads: Array) -> "Priced":
        """The same server at other loads.

        - loads: request rates or numbers of clients.
        """
        at = loads.tolist()
        if self.question.opens:
            question = replace(self.question, request_rate=at)
        else:
            question = replace(self.question, max_concurrency=[round(clients) for clients in at])
        replica = replace(self.replica, load=question.loop.load(question.loop.values))
        choices = choices_of(question, replica) if self.known else self.choices[:1]
        return replace(self, question=question, replica=replica, choices=choices)

    @property
    def draft_is_slowed(self) -> bool:
        """Whether a known defect of the engine makes the draft slower."""
        return slowing(self.scenario, self.mean_context) is not None

    def advisable(self, rows: list[TrafficRow]) -> list[TrafficRow]:
        """The rows that may be recommended. If a known defect makes the draft slower, only the baseline may
        be recommended.
        """
        return rows[:1] if self.draft_is_slowed else rows

    def closed(self, log_off: Mapping[int, float | None]) -> list[list[TrafficRow]]:
        """The rows of the closed form for each load, in the order of the choices.

        - log_off: draft length -> standard deviation of the logarithm of its mean TPOT.
        """
        return _closed_rows(self.question, self.scenario, self.choices, log_off)

    def rows(self, log_off: Mapping[int, float | None]) -> tuple[list[list[TrafficRow]], list[ClassRow]]:
        """The rows for each load, and the rows of the classes of a mix. Some rows may come from replays."""
        closed = self.closed(log_off)
        by_load, classes = _one_row_per_load(self.question, self.replica, self.choices, closed, log_off)
        return never_falling(by_load), classes


@dataclass(frozen=True, slots=True)
class RowsByLoad:
    """The rows of `traffic` for each load, without intervals. The baseline comes first. A draft that a known
    defect makes slower has no row.

    - known: whether the acceptance of the draft is known.
    """

    question: TrafficQuery
    by_load: list[list[TrafficRow]]
    known: bool

    @property
    def verdict(self) -> TrafficVerdict:
        """The recommendation at the first load."""
        return verdict_of(self.question, self.by_load[0], self.known)


def compared(question: TrafficQuery, replays: bool) -> RowsByLoad:
    """The rows by which `advise` compares servers.

    - replays: whether to use replays if the closed form is not accurate, as `traffic` does.
    """
    priced = Priced.of(question)
    without = dict.fromkeys(priced.replica.passes)
    by_load = priced.rows(without)[0] if replays else priced.closed(without)
    return RowsByLoad(priced.question, [priced.advisable(rows) for rows in by_load], priced.known)


def closed_rows_of(question: TrafficQuery, drafts: bool) -> list[list[TrafficRow]]:
    """The rows of the closed form for each load, either those with a draft or those without.

    - drafts: whether to return the rows with a draft. There are none if a known defect makes the draft
      slower.
    """
    priced = Priced.of(question)
    wanted = [choice for choice in priced.choices if (choice.gamma != 0) is drafts]
    if drafts and priced.draft_is_slowed:
        wanted = []
    return _closed_rows(priced.question, priced.scenario, wanted, dict.fromkeys(priced.replica.passes))


def _closed_rows(
    question: TrafficQuery,
    scenario: Scenario,
    choices: Sequence[Choice],
    log_off: Mapping[int, float | None],
) -> list[list[TrafficRow]]:
    """The rows of the closed form by load, in the order of the choices."""
    by_load: list[list[TrafficRow]] = [[] for _ in question.loop.values]
    for choice in choices:
        off = log_off[choice.steps.gamma]
        rows = closed_rows(question, choice, off, question.loop.values[choice.at])
        for load, row in zip(choice.at.tolist(), rows, strict=True):
            by_load[load].append(with_intervals(row, off, scenario))
    return by_load


def _one_row_per_load(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    closed: Sequence[list[TrafficRow]],
    log_off: Mapping[int, float | None],
) -> tuple[list[list[TrafficRow]], list[ClassRow]]:
    """The rows for each load, and the rows of the classes of a mix. The rows come from replays if the closed
    form is not accurate at the load, or if the question asks for replays.
    """
    simulated = [question.replays or any(row.doubts for row in rows) for rows in closed]
    if question.closed_form or question.rollout is not None:
        simulated = [False for _ in closed]
        closed = [[_as_doubted(row) for row in rows] for rows in closed]
    count = sum(len(rows) for rows, one in zip(closed, simulated, strict=True) if one)
    check_size(question, count, choices)
    if question.draws and question.rollout is None:
        return _on_ladders(question, replica, choices, closed, log_off, simulated), []
    by_load = list[list[TrafficRow]]()
    classes = list[ClassRow]()
    for at, (load, rows) in enumerate(zip(question.loop.values.tolist(), closed, strict=True)):
        if not simulated[at]:
            by_load.append(rows)
            continue
        there = [choice for choice in choices if at in choice.at]
        met, of_classes = replayed_rows(question, replica, there, rows, log_off, load)
        by_load.append(met)
        classes += of_classes
    return by_load, classes


def _on_ladders(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    closed: Sequence[list[TrafficRow]],
    log_off: Mapping[int, float | None],
    simulated: Sequence[bool],
) -> list[list[TrafficRow]]:
    """The rows for each load, for random requests. A row of the closed form is only replaced if the closed
    form is not accurate and at least one request fits in memory.
    """
    ladders = {
        choice.gamma: Ladder(question, replica, choice, log_off.get(choice.steps.gamma))
        for choice in choices
        if choice.steps.seats
    }

    def at_load(load: float, row: TrafficRow, replayed: bool) -> TrafficRow:
        ladder = ladders.get(row.gamma)
        if ladder is None:
            return row
        if replayed and (question.replays or row.doubts):
            row = ladder.replayed(load, row)
        return ladder.bounded(load, row)

    return [
        [at_load(load, row, replayed) for row in rows]
        for load, rows, replayed in zip(question.loop.values.tolist(), closed, simulated, strict=True)
    ]


def _as_doubted(row: TrafficRow) -> TrafficRow:
    """The row with a warning for each reason why the closed form may be inaccurate."""
    notes = tuple(f"the closed form may be off: {doubt}" for doubt in row.doubts)
    return replace(row, warnings=row.warnings + notes)


def replica_of(question: TrafficQuery, scenario: Scenario, known: bool) -> Replica:
    """One server (replica), with the times of its passes at all draft lengths that the policies of the
    question may choose.

    Raises InputError for a draft length that the draft cannot produce.
    """
    longest = scenario.longest(question.max_gamma)
    lengths = {0}
    for policy in question.gamma:
        lengths |= set(policy.lengths(longest)) if known else set()
    check_draft_length(scenario.draft, max(lengths))
    priced = _passes(scenario, question.lengths, question.limits, tuple(sorted(lengths)), question.reuse)
    if question.turns > 1:
        priced = [along_turns(question, scenario, t) for t in priced]
    load = question.loop.load(question.loop.values)
    passes = {t.gamma: t for t in priced}
    return Replica(scenario, question.limits, load, passes, question.spread)


def _passes(
    scenario: Scenario, lengths: Lengths, limits: Limits, drafted: tuple[int, ...], reuse: Reuse | None
) -> list[StepTimes]:
    """The times of the passes (`step_times`), which are the same at every load. The scenario stores the last
    result, because `advise` predicts the same server at many loads.
    """
    of = scenario.acceptance, lengths, limits, drafted, reuse
    last = scenario.known.get(_passes)
    if last is None or last[0] != of:
        last = of, step_times(scenario, lengths, limits, drafted, reuse=reuse)
        scenario.known[_passes] = last
    priced: list[StepTimes] = last[1]
    return priced


def choices_of(question: TrafficQuery, replica: Replica) -> list[Choice]:
    """The draft lengths and policies to predict, each once. The baseline comes first."""
    choices: dict[int | str, Choice] = {}
    for policy in (Fixed(0), *sorted(question.gamma, key=lambda each: each.tokens is None)):
        for choice in policy.choices(replica):
            choices.setdefault(choice.gamma, choice)
    return list(choices.values())


def _query(question: TrafficQuery) -> Query:
    """The question in the form of `whatif`, from which names, formats and acceptance are resolved."""
    stated = question.stated_lengths
    return question.query(
        batch=1,
        context=max(round(question.lengths.context), 1),
        gamma=None if stated is None else max(stated),
        max_num_seqs=question.group_seats,
    )


def _scenario(question: TrafficQuery, query: Query) -> tuple[Scenario, bool]:
    """The scenario, and whether its acceptance is known."""
    try:
        return resolve(query), True
    except UnknownAcceptance:
        if question.acceptance is not None:
            raise
        return resolve_costs(query), False
