"""vLLM: ``vllm serve`` and ``vllm bench serve``."""

import json
import shlex

from perfmodel.validate.engine.servers.base import (
    OWN,
    BenchRequest,
    BenchServer,
    simulated_rates,
    with_server,
)

NEEDS_PANDAS = "# vllm bench serve reads such a file with pandas: pip install 'vllm[bench]'"


class VLLM(BenchServer):
    """vLLM and its client."""

    client_rounds = 1
    files = ("K*-*.json",)

    def preparations(self, request: BenchRequest) -> list[str]:
        """The prompts, and what the client needs to read them."""
        lines = super().preparations(request)
        return [*lines, NEEDS_PANDAS] if lines else []

    def runs(self, request: BenchRequest, gamma: int, port: int) -> list[str]:
        """The lines of one draft length."""
        words = ["vllm", "serve", request.model, "--no-enable-prefix-caching"]
        words += ["--tensor-parallel-size", str(request.tp)] if request.tp > 1 else []
        if gamma:
            named = {} if request.method in OWN else {"model": request.draft or "DRAFT"}
            config = {"method": request.method, **named, "num_speculative_tokens": gamma}
            if request.pretends:
                rates = [round(rate, 4) for rate in simulated_rates(gamma)]
                config |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
            words += ["--speculative-config", json.dumps(config)]
        first, *longer = request.prompts
        batches = " ".join(map(str, request.batches))
        each = f"for c in {batches}; do {self._bench(request, gamma, first, '$c', port)}; done"
        ends = [self._bench(request, gamma, prompt, str(request.batches[-1]), port) for prompt in longer]
        return with_server(words, port, [each, *ends])

    def _bench(self, request: BenchRequest, gamma: int, prompt: int, batch: str, port: int) -> str:
        """One run of vLLM's client, with as many prompts as clients, so that no request waits for another's
        prompt.
        """
        prompts = (
            f"--dataset-name custom --dataset-path repeating-{prompt}.jsonl --skip-chat-template "
            f"--custom-output-len {request.new_tokens}"
            if self.repeats(request)
            else f"--dataset-name random --random-input-len {prompt} --random-output-len {request.new_tokens}"
        )
        return (
            f"vllm bench serve --port {port} --model {shlex.quote(request.model)} {prompts} --ignore-eos "
            f"--temperature 0 --num-warmups 1 --max-concurrency {batch} --num-prompts {batch} --save-result "
            f"--save-detailed --result-filename K{gamma}-{prompt}-{batch}.json"
        )
