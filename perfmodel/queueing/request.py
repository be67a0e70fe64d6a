"""A request of a replay."""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """The state of a request from its arrival to its last token. Times are in seconds.

    - number: position of the request in the order of arrival, from 0.
    - prompt_tokens, output_tokens, work: the tokens and the work to be computed, counted from the arrival or
      from the last preemption. A preemption turns decoded tokens into prompt tokens.
    - work: number of iterations times the mean tokens per iteration.
    - growth: number of tokens that the request adds to the cache per unit of work.
    - late: whether one more pass is already queued on the device when the request arrives.
    - unread_tokens: prompt tokens that are not computed yet.
    - hit_tokens: prompt tokens that are in the prefix cache.
    - part_tokens: prompt tokens that the next pass reads.
    - from_pass: number of the first pass that may read the prompt.
    - stay: number of times that the request has left the running batch.
    - group: index of the data-parallel group of the request.
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
