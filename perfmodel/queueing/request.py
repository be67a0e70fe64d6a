"""A request of a replay."""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request from its arrival to its last token; times in seconds.

    number: its place in the order of arrival. prompt_tokens, output_tokens, work: what is to be computed
    from its arrival, or from its last preemption, which turns decoded tokens into prompt tokens. work:
    iterations times the gain of one iteration. growth: cached tokens per unit of work. late: whether the
    device already has one more pass when the request arrives. unread_tokens: prompt tokens that are not
    computed yet. hit_tokens: prompt tokens that the prefix cache holds. part_tokens: prompt tokens in the
    next pass. from_pass: number of the first pass that may read its prompt. stay: number of times that it
    has left the running batch. group: its data-parallel group.
    """

    number: int
    prompt_tokens: int
    output_tokens: int
    work: float
    growth: float
    sent_s: float
    late: bool
    unread_tokens: int = field(init=False)
    hit_tokens: int = field(init=False)
    part_tokens: int = field(init=False)
    from_pass: int = field(init=False)
    stay: int = 0
    group: int = 0
    preempted: bool = False
    first_s: float = field(init=False)
    ended_s: float = field(init=False)
