"""Data-parallel groups of attention. Each group reads its own prompts, and a pass ends when the group with
the most prompt tokens is done, because all groups share the experts.

In TensorRT-LLM, groups may also wait for each other's prompts. With ``enable_balance`` in
``attention_dp_config``, prompts wait until every group has a prompt. Prompts are also admitted when
``timeout_iters`` passes have run since the last admission.

Source: PyExecutor._balance_adp_requests in _torch/pyexecutor/py_executor.py (not checked against the code).
"""

from collections.abc import Iterable

from perfmodel.queueing.request import QueuedRequest


class Groups:
    """The number of requests and of unread prompts in each group. A new request joins the group with the
    fewest requests.

    - balance_passes: number of passes after which prompts are read even if a group has no prompt. It is 0 if
      no group waits for another.
    - last_admission: number of the last pass in which prompts were admitted because every group had a prompt,
      or because a group had nothing to decode.
    """

    def __init__(self, count: int, balance_passes: int) -> None:
        self.count = count
        self.balance_passes = balance_passes
        self.requests = [0] * count
        self.prompts = [0] * count
        self.last_admission = 0

    def join(self, request: QueuedRequest) -> None:
        """Adds an arriving request to the group with the fewest requests."""
        request.group = min(range(self.count), key=self.requests.__getitem__)
        self.requests[request.group] += 1
        self.prompts[request.group] += 1

    def start(self, request: QueuedRequest) -> None:
        """Records that the prompt of a request has been read."""
        self.prompts[request.group] -= 1

    def preempt(self, request: QueuedRequest) -> None:
        """Records that the prompt of a preempted request has to be read again."""
        self.prompts[request.group] += 1

    def leave(self, request: QueuedRequest) -> None:
        """Removes a request that has all its output tokens."""
        self.requests[request.group] -= 1

    def holds(self, pass_number: int) -> bool:
        """Whether the prompts at the server wait during the next pass."""
        decoding = [requests - prompts for requests, prompts in zip(self.requests, self.prompts, strict=True)]
        if all(self.prompts) or not all(decoding):
            self.last_admission = pass_number
            return False
        return self.passes_to_go(pass_number) < self.balance_passes

    def passes_to_go(self, pass_number: int) -> int:
        """Number of passes until waiting prompts are admitted. Just after an admission it is
        `balance_passes`.
        """
        return self.balance_passes - (pass_number - self.last_admission) % self.balance_passes

    def fullest_tokens(self, prompts: Iterable[QueuedRequest]) -> float:
        """The largest number of prompt tokens of a group, times the number of groups. The duration of a pass
        depends on this number.
        """
        tokens = [0] * self.count
        for request in prompts:
            tokens[request.group] += request.part_tokens
        return float(self.count * max(tokens))
