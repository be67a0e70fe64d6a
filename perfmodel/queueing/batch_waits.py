"""Prompts that wait for a fuller pass, as in TensorRT-LLM.

Its options ``batch_wait_timeout_iters`` and ``batch_wait_max_tokens_ratio`` (PyExecutor._waiting_requests
of _torch/pyexecutor/py_executor.py, from memory): while requests decode, prompts wait until the tokens of
a pass reach this share of its budget, but for no more than this number of passes.
"""

from dataclasses import dataclass

from perfmodel.queueing.load import Limits


@dataclass(slots=True)
class BatchWaits:
    """passes: number of passes for which the prompts at the server have waited for a fuller pass."""

    limits: Limits
    passes: int = 0

    def holds(self, running: int, tokens: float) -> bool:
        """Whether the prompts wait during the coming pass, which otherwise has this many tokens."""
        fullest = self.limits.batch_wait_share * self.limits.max_num_batched_tokens
        if not running or tokens >= fullest or self.passes >= self.limits.batch_wait_passes:
            self.passes = 0
            return False
        self.passes += 1
        return True
