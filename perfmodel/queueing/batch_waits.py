"""Prompts that wait for a fuller pass, as in TensorRT-LLM.

While requests decode, prompts wait until the next pass would use the share ``batch_wait_max_tokens_ratio`` of
its token budget. Prompts wait for at most ``batch_wait_timeout_iters`` passes.

Source: PyExecutor._waiting_requests in _torch/pyexecutor/py_executor.py (not checked against the code).
"""

from dataclasses import dataclass

from perfmodel.queueing.load import Limits


@dataclass(slots=True)
class BatchWaits:
    """The number of passes for which prompts have waited for a fuller pass.

    - passes: number of these passes since the prompts began to wait.
    """

    limits: Limits
    passes: int = 0

    def holds(self, running: int, tokens: float) -> bool:
        """Decides whether the prompts wait during the next pass, and counts that pass.

        - tokens: number of tokens of that pass if the prompts do not wait.
        """
        fullest = self.limits.batch_wait_share * self.limits.max_num_batched_tokens
        if not running or tokens >= fullest or self.passes >= self.limits.batch_wait_passes:
            self.passes = 0
            return False
        self.passes += 1
        return True
