"""The runs worth making: few batches, two contexts, two draft lengths, as the commands of an engine."""

import json
import shlex
from dataclasses import dataclass

from perfmodel.errors import unknown_name
from perfmodel.validate.engine.driver import Load

BATCHES = (1, 4, 16)
PROMPTS = (512, 4096)
NEW_TOKENS = 256
SYNTHETIC = 0.8
"""Acceptance asked of an engine that can pretend: the times of an iteration do not depend on it."""

OWN = ("ngram", "mtp")
"""Methods that need no model beside the target."""
REPEATS = (
    "# n-gram drafts what a text repeats, and random prompts repeat nothing: put texts of yours in their place, "
    "such as --dataset-name sharegpt --dataset-path FILE"
)
SGLANG = {"eagle": "EAGLE", "eagle3": "EAGLE3", "draft_model": "STANDALONE", "ngram": "NGRAM", "mtp": "NEXTN"}
"""Method -> --speculative-algorithm."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the plan is for."""

    model: str
    engine: str = "vllm"
    tp: int = 1
    method: str = "draft_model"
    draft: str | None = None
    gammas: tuple[int, ...] = (2, 7)
    batches: tuple[int, ...] = BATCHES
    prompts: tuple[int, ...] = PROMPTS
    new_tokens: int = NEW_TOKENS


def loads(asked: PlanRequest) -> list[Load]:
    """The points of one server: every batch at the shorter prompt, the ends at the longer."""
    short, *longer = asked.prompts
    found = [Load(batch, short, asked.new_tokens) for batch in asked.batches]
    ends = dict.fromkeys((asked.batches[0], asked.batches[-1]))
    return found + [Load(batch, prompt, asked.new_tokens) for prompt in longer for batch in ends]


def commands(asked: PlanRequest) -> list[str]:
    """Lines for a shell: for each draft length (and none) a server and the runs against it."""
    makers = {"vllm": _vllm, "sglang": _sglang, "llama.cpp": _llama_cpp}
    if asked.engine not in makers:
        raise unknown_name("--engine", "engine", asked.engine, makers)
    lines = [line for gamma in (0, *asked.gammas) for line in makers[asked.engine](asked, gamma)]
    return [REPEATS, *lines] if asked.method == "ngram" and asked.engine == "vllm" else lines


def _vllm(asked: PlanRequest, gamma: int) -> list[str]:
    words = ["vllm", "serve", asked.model, "--no-enable-prefix-caching"]
    words += ["--tensor-parallel-size", str(asked.tp)] if asked.tp > 1 else []
    if gamma:
        named = {} if asked.method in OWN else {"model": asked.draft or "DRAFT"}
        config = {"method": asked.method, **named, "num_speculative_tokens": gamma}
        rates = [round(SYNTHETIC**j, 4) for j in range(1, gamma + 1)]
        config |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
        words += ["--speculative-config", json.dumps(config)]
    return [
        shlex.join(words) + " &",
        f"for c in {' '.join(map(str, asked.batches))}; do {_bench(asked, gamma, asked.prompts[0], '$c')}; done",
        *(_bench(asked, gamma, prompt, str(asked.batches[-1])) for prompt in asked.prompts[1:]),
    ]


def _bench(asked: PlanRequest, gamma: int, prompt: int, batch: str) -> str:
    """One run of vLLM's client. As many prompts as places: nobody is held up by another's prompt."""
    return (
        f"vllm bench serve --model {shlex.quote(asked.model)} --dataset-name random --random-input-len {prompt} "
        f"--random-output-len {asked.new_tokens} --ignore-eos --temperature 0 --num-warmups 1 "
        f"--max-concurrency {batch} --num-prompts {batch} "
        f"--save-result --save-detailed --result-filename K{gamma}-{prompt}-{batch}.json"
    )


def _sglang(asked: PlanRequest, gamma: int) -> list[str]:
    words = ["python", "-m", "sglang.launch_server", "--model-path", asked.model, "--disable-radix-cache"]
    words += ["--tp", str(asked.tp)] if asked.tp > 1 else []
    if gamma:
        words += ["--speculative-algorithm", SGLANG[asked.method]]
        words += [] if asked.method in OWN else ["--speculative-draft-model-path", asked.draft or "DRAFT"]
        words += ["--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"]
        words += ["--speculative-num-draft-tokens", str(gamma + 1)]
    return [
        shlex.join(words) + " &",
        *(
            f"for c in {' '.join(map(str, asked.batches))}; do python -m sglang.bench_serving --backend sglang "
            f"--dataset-name random --random-input-len {prompt} --random-output-len {asked.new_tokens} "
            f"--random-range-ratio 1 --max-concurrency $c --num-prompts $((3 * c)) "
            f"--output-file K{gamma}.jsonl; done"
            for prompt in asked.prompts
        ),
    ]


def _llama_cpp(asked: PlanRequest, gamma: int) -> list[str]:
    if gamma == 0:
        batches, prompts = ",".join(map(str, asked.batches)), ",".join(map(str, asked.prompts))
        return [
            f"llama-batched-bench -m {shlex.quote(asked.model)} -npp {prompts} -ntg {asked.new_tokens} -npl {batches} "
            "--output-format jsonl > K0.jsonl"
        ]
    draft = asked.draft or "DRAFT"
    return [
        f"llama-server -m {shlex.quote(asked.model)} -md {shlex.quote(draft)} --draft-max {gamma} --draft-min {gamma} "
        "--draft-p-min 0 &",
        f"perfmodel validate engine --url http://localhost:8080 --model {shlex.quote(asked.model)} --gamma {gamma} "
        "--hardware HARDWARE",
    ]
