"""vLLM: ``vllm serve`` and ``vllm bench serve``."""

import json
import shlex
from typing import Any

from perfmodel.validate.engine.servers.base import (
    OWN,
    BenchRequest,
    BenchServer,
    simulated_rates,
    with_server,
)

NEEDS_PANDAS = "# vllm bench serve reads such a file with pandas: pip install 'vllm[bench]'"


class VLLMBench(BenchServer):
    """vLLM and its client."""

    client_rounds = 1
    files = ("K*-*.json",)

    def preparations(self, request: BenchRequest) -> list[str]:
        """The shell lines that write the prompts, and a note about the package that the client needs to read
        them.
        """
        lines = super().preparations(request)
        return [*lines, NEEDS_PANDAS] if lines else []

    def runs(self, request: BenchRequest, gamma: int, port: int) -> list[str]:
        """The shell lines for one draft length."""
        words = ["vllm", "serve", request.model, "--no-enable-prefix-caching"]
        if request.tp > 1:
            words += ["--tensor-parallel-size", str(request.tp)]
        if gamma:
            words += ["--speculative-config", json.dumps(self._speculative_config(request, gamma))]
        first, *longer = request.prompts
        batches = " ".join(map(str, request.batches))
        runs = [f"for c in {batches}; do {self._bench(request, gamma, first, '$c', port)}; done"]
        for prompt in longer:
            runs.append(self._bench(request, gamma, prompt, str(request.batches[-1]), port))
        return with_server(words, port, runs)

    def _speculative_config(self, request: BenchRequest, gamma: int) -> dict[str, Any]:
        """The value of ``--speculative-config``."""
        config: dict[str, Any] = {"method": request.method}
        if request.method not in OWN:
            config["model"] = request.draft or "DRAFT"
        config["num_speculative_tokens"] = gamma
        if request.pretends:
            config["rejection_sample_method"] = "synthetic"
            config["synthetic_acceptance_rates"] = [round(rate, 4) for rate in simulated_rates(gamma)]
        return config

    def _bench(self, request: BenchRequest, gamma: int, prompt: int, batch: str, port: int) -> str:
        """The command of one run of vLLM's client. There are as many prompts as clients, so no request waits
        for the prompt of another one.
        """
        if self.repeats(request):
            prompts = (
                f"--dataset-name custom --dataset-path repeating-{prompt}.jsonl --skip-chat-template "
                f"--custom-output-len {request.new_tokens}"
            )
        else:
            lengths = f"--random-input-len {prompt} --random-output-len {request.new_tokens}"
            prompts = f"--dataset-name random {lengths}"
        return (
            f"vllm bench serve --port {port} --model {shlex.quote(request.model)} {prompts} --ignore-eos "
            f"--temperature 0 --num-warmups 1 --max-concurrency {batch} --num-prompts {batch} --save-result "
            f"--save-detailed --result-filename K{gamma}-{prompt}-{batch}.json"
        )
