"""Prompts that wait for a fuller pass, as in TensorRT-LLM.

While requests decode, prompts wait until the tokens of a pass reach the share
``batch_wait_max_tokens_ratio`` of its budget, but for at most ``batch_wait_timeout_iters`` passes. Source:
PyExecutor._waiting_requests of _torch/pyexecutor/py_executor.py, recalled and not checked.
"""

from dataclasses import dataclass

from perfmodel.queueing.load import Limits


@dataclass(slots=True)
class BatchWaits:
    """passes: number of passes for which the prompts at the server have waited for a fuller pass."""

    limits: Limits
    passes: int = 0

    def holds(self, running: int, tokens: float) -> bool:
        """Whether the prompts wait during the next pass. tokens: number of tokens of that pass if they do
        not wait.
        """
        fullest = self.limits.batch_wait_share * self.limits.max_num_batched_tokens
        if not running or tokens >= fullest or self.passes >= self.limits.batch_wait_passes:
            self.passes = 0
            return False
        self.passes += 1
        return True
