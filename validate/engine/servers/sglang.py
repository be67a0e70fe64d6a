"""SGLang: ``sglang.launch_server`` and ``sglang.bench_serving``."""

from perfmodel.specs import serving_engines
from perfmodel.validate.engine.servers.base import (
    OWN,
    BenchRequest,
    BenchServer,
    simulated_rates,
    with_server,
)

KINDS = {"draft_model": "model"}
"""Method of a plan -> perfmodel's kind of draft, where they differ."""


def algorithm(method: str) -> str:
    """The value of ``--speculative-algorithm`` for a method of a plan."""
    return serving_engines()["sglang"].drafts[KINDS.get(method, method)].method


class SGLangBench(BenchServer):
    """SGLang and its client."""

    client_rounds = 3
    files = ("K*.jsonl",)

    def runs(self, request: BenchRequest, gamma: int, port: int) -> list[str]:
        """The shell lines for one draft length."""
        words = ["python", "-m", "sglang.launch_server", "--model-path", request.model]
        words.append("--disable-radix-cache")
        if request.tp > 1:
            words += ["--tp", str(request.tp)]
        if gamma:
            words += ["--speculative-algorithm", algorithm(request.method)]
            if request.method not in OWN:
                words += ["--speculative-draft-model-path", request.draft or "DRAFT"]
            words += ["--speculative-num-draft-tokens", str(gamma + 1)]
            if request.method == "dspark":
                words += ["--speculative-dspark-block-size", str(gamma)]
            elif request.method != "dflash":
                words += ["--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"]
            if request.pretends:
                tokens_per_iteration = 1 + sum(simulated_rates(gamma))
                words = ["env", f"SGLANG_SIMULATE_ACC_LEN={tokens_per_iteration:.4g}", *words]
        clients = " ".join(map(str, request.batches))
        runs = []
        for prompt in request.prompts:
            benchmark = (
                f"python -m sglang.bench_serving --backend sglang --port {port} "
                f"{self._prompts(request, prompt)} --max-concurrency $c "
                f"--num-prompts $(({self.client_rounds} * c)) --output-file K{gamma}.jsonl"
            )
            runs.append(f"for c in {clients}; do {benchmark}; done")
        return with_server(words, port, runs)

    def _prompts(self, request: BenchRequest, prompt: int) -> str:
        if self.repeats(request):
            return (
                f"--dataset-name custom --dataset-path repeating-{prompt}.jsonl "
                f"--sharegpt-output-len {request.new_tokens}"
            )
        return (
            f"--dataset-name random --random-input-len {prompt} --random-output-len {request.new_tokens} "
            "--random-range-ratio 1"
        )
