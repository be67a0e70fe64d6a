"""Useful runs as shell lines: few batches, two contexts, two draft lengths."""

import json
import shlex
from dataclasses import dataclass

from perfmodel.errors import refuse, unknown_name
from perfmodel.validate.engine.driver import ServerLoad

SYNTHETIC = 0.8
"""Acceptance that is requested from an engine that can simulate it; the time of an iteration does not depend
on it.
"""
GAMMAS = (2, 7)
"""Draft lengths in addition to 0. The fit covers the lengths between them."""
FIRST_PORT = 8100
INSTALLED = """python3 -c 'from importlib.metadata import version; print(version("{}"))'"""
"""Shell command that prints the version of an engine, which its client does not write."""
NEEDS_PANDAS = "# vllm bench serve reads such a file with pandas: pip install 'vllm[bench]'"
OWN = ("ngram", "mtp")
"""Methods without an additional model."""
CLIENT_ROUNDS = {"vllm": 1, "sglang": 3}
"""Prompts per place of a run, by client."""
REPEATED = "one two three four five six seven eight "
"""Words that prompts for an n-gram draft repeat, eight tokens in most vocabularies. Random prompts would
repeat nothing.
"""
SGLANG = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "draft_model": "STANDALONE",
    "ngram": "NGRAM",
    "mtp": "NEXTN",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
}
"""Method -> --speculative-algorithm."""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """The runs to make. model, draft: their ids for the engine. question: the names in perfmodel.

    pretends: whether the engine can simulate acceptance at a rate (vLLM's CPU backend cannot).
    """

    model: str
    engine: str
    tp: int
    method: str
    draft: str | None
    gammas: tuple[int, ...]
    batches: tuple[int, ...]
    prompts: tuple[int, ...]
    new_tokens: int
    question: tuple[str, ...]
    records: str
    pretends: bool


def loads(batches: tuple[int, ...], prompts: tuple[int, ...], new_tokens: int) -> list[ServerLoad]:
    """The points of one server: every batch with the shorter prompt, the smallest and largest with the
    longer.
    """
    short, *longer = prompts
    ends = dict.fromkeys((batches[0], batches[-1]))
    places = [
        *((batch, short) for batch in batches),
        *((batch, prompt) for prompt in longer for batch in ends),
    ]
    return [ServerLoad(batch, prompt, new_tokens) for batch, prompt in places]


def commands(request: BenchRequest) -> list[str]:
    """Shell lines: for each draft length, 0 first, start a server, wait for it, measure and stop it; then
    fit.
    """
    makers = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm, "llama.cpp": _llama_cpp}
    if request.engine not in makers:
        raise unknown_name("--engine", "engine", request.engine, makers)
    lines = [_repeating(request, prompt) for prompt in request.prompts] if _repeats(request) else []
    lines += [NEEDS_PANDAS] if lines and request.engine == "vllm" else []
    for number, gamma in enumerate((0, *request.gammas)):
        lines += makers[request.engine](request, gamma, FIRST_PORT + number)
    records = f"{request.records}/engine-*-K*.json"
    files = {
        "vllm": ["K*-*.json"],
        "sglang": ["K*.jsonl"],
        "trtllm": [records],
        "llama.cpp": ["K0.jsonl", records],
    }
    words = ["perfmodel", "validate", "engine", *request.question, "--engine", request.engine]
    version = f' --version "$({INSTALLED.format(request.engine)})"' if request.engine in CLIENT_ROUNDS else ""
    return [*lines, f"{shlex.join(words)}{version} --from {' '.join(files[request.engine])}"]


def _repeats(request: BenchRequest) -> bool:
    """Whether prompts must repeat themselves, and come from a file."""
    return request.method == "ngram" and request.engine in ("vllm", "sglang")


def _repeating(request: BenchRequest, prompt: int) -> str:
    """A line that writes prompts of about this many tokens, all different from the first token on."""
    times, most = -(-prompt // len(REPEATED.split())), CLIENT_ROUNDS[request.engine] * max(request.batches)
    row = {"prompt": "@", "conversations": [{"content": "@"}, {"content": "ok"}]}
    text = f"{json.dumps(json.dumps(row))}.replace('@', f'{{n}} ' + {REPEATED!r} * {times})"
    return f"python3 -c {shlex.quote(f'for n in range({most}): print({text})')} > repeating-{prompt}.jsonl"


def _with_server(words: list[str], port: int, runs: list[str]) -> list[str]:
    """Lines that start a server, run the clients once it answers, and stop it."""
    return [
        f"{shlex.join(words)} --port {port} & server=$!",
        f"until curl -sf http://127.0.0.1:{port}/health > /dev/null; do",
        "  kill -0 $server || break; sleep 2; done",
        *runs,
        "kill $server; wait $server",
    ]


def _rates(gamma: int) -> list[float]:
    """Shares of iterations that accept the first drafted token, the first two ..., where they are
    pretended.
    """
    return [SYNTHETIC**j for j in range(1, gamma + 1)]


def _vllm(request: BenchRequest, gamma: int, port: int) -> list[str]:
    words = ["vllm", "serve", request.model, "--no-enable-prefix-caching"]
    words += ["--tensor-parallel-size", str(request.tp)] if request.tp > 1 else []
    if gamma:
        named = {} if request.method in OWN else {"model": request.draft or "DRAFT"}
        config = {"method": request.method, **named, "num_speculative_tokens": gamma}
        if request.pretends:
            rates = [round(rate, 4) for rate in _rates(gamma)]
            config |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
        words += ["--speculative-config", json.dumps(config)]
    first, *longer = request.prompts
    each = (
        f"for c in {' '.join(map(str, request.batches))}; do {_bench(request, gamma, first, '$c', port)}; "
        "done"
    )
    ends = [_bench(request, gamma, prompt, str(request.batches[-1]), port) for prompt in longer]
    return _with_server(words, port, [each, *ends])


def _bench(request: BenchRequest, gamma: int, prompt: int, batch: str, port: int) -> str:
    """One run of vLLM's client, with as many prompts as clients, so that no request waits for another's
    prompt.
    """
    prompts = (
        f"--dataset-name custom --dataset-path repeating-{prompt}.jsonl --skip-chat-template "
        f"--custom-output-len {request.new_tokens}"
        if _repeats(request)
        else f"--dataset-name random --random-input-len {prompt} --random-output-len {request.new_tokens}"
    )
    return (
        f"vllm bench serve --port {port} --model {shlex.quote(request.model)} {prompts} --ignore-eos "
        f"--temperature 0 --num-warmups 1 --max-concurrency {batch} --num-prompts {batch} --save-result "
        f"--save-detailed --result-filename K{gamma}-{prompt}-{batch}.json"
    )


def _sglang(request: BenchRequest, gamma: int, port: int) -> list[str]:
    words = ["python", "-m", "sglang.launch_server", "--model-path", request.model, "--disable-radix-cache"]
    words += ["--tp", str(request.tp)] if request.tp > 1 else []
    if gamma:
        words += ["--speculative-algorithm", SGLANG[request.method]]
        words += [] if request.method in OWN else ["--speculative-draft-model-path", request.draft or "DRAFT"]
        words += ["--speculative-num-draft-tokens", str(gamma + 1)]
        if request.method == "dspark":
            words += ["--speculative-dspark-block-size", str(gamma)]
        elif request.method != "dflash":
            words += ["--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"]
        if request.pretends:
            words = ["env", f"SGLANG_SIMULATE_ACC_LEN={1 + sum(_rates(gamma)):.4g}", *words]
    runs = [
        f"for c in {' '.join(map(str, request.batches))}; do python -m sglang.bench_serving --backend "
        f"sglang --port {port} {_sglang_prompts(request, prompt)} --max-concurrency $c --num-prompts "
        f"$(({CLIENT_ROUNDS['sglang']} * c)) --output-file K{gamma}.jsonl; done"
        for prompt in request.prompts
    ]
    return _with_server(words, port, runs)


def _sglang_prompts(request: BenchRequest, prompt: int) -> str:
    if _repeats(request):
        return (
            f"--dataset-name custom --dataset-path repeating-{prompt}.jsonl "
            f"--sharegpt-output-len {request.new_tokens}"
        )
    return (
        f"--dataset-name random --random-input-len {prompt} --random-output-len {request.new_tokens} "
        "--random-range-ratio 1"
    )


def _trtllm(request: BenchRequest, gamma: int, port: int) -> list[str]:
    """A file of options (keys of aiconfigurator 0.12.0's templates for TensorRT-LLM 1.0 to 1.3), and a server
    that accepts a fixed number of tokens.
    """
    if request.method != "mtp":
        raise refuse(
            "--draft", None, "mtp for a plan of trtllm, whose other keys differ by version", request.method
        )
    options, words = ["kv_cache_config: {enable_block_reuse: false}"], ["trtllm-serve", request.model]
    if gamma:
        options += [f"speculative_config: {{decoding_type: MTP, num_nextn_predict_layers: {gamma}}}"]
        forced = round(sum(_rates(gamma)))
        words = ["env", f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={forced}", *words]
    words += ["--tp_size", str(request.tp), "--extra_llm_api_options", f"K{gamma}.yaml"]
    written = f"printf '%s\\n' {shlex.join(options)} > K{gamma}.yaml"
    return [written, *_with_server(words, port, [_driven(request, gamma, port)])]


def _llama_cpp(request: BenchRequest, gamma: int, port: int) -> list[str]:
    if gamma == 0:
        batches, prompts = ",".join(map(str, request.batches)), ",".join(map(str, request.prompts))
        return [
            f"llama-batched-bench -m {shlex.quote(request.model)} -npp {prompts} -ntg {request.new_tokens} "
            f"-npl {batches} --output-format jsonl > K0.jsonl"
        ]
    words = [
        "llama-server",
        "-m",
        request.model,
        "--spec-type",
        "draft-simple",
        "-md",
        request.draft or "DRAFT",
    ]
    words += f"--spec-draft-n-max {gamma} --spec-draft-n-min {gamma} --spec-draft-p-min 0".split()
    words += ["-np", str(request.batches[-1])]
    return _with_server(words, port, [_driven(request, gamma, port)])


def _driven(request: BenchRequest, gamma: int, port: int) -> str:
    """Our own client against the server."""
    places = {"--batches": request.batches, "--prompts": request.prompts}
    points = [word for flag, each in places.items() for word in (flag, ",".join(map(str, each)))]
    server = ["--gamma", str(gamma), "--engine", request.engine, "--url", f"http://127.0.0.1:{port}"]
    return shlex.join(["perfmodel", "validate", "engine", *request.question, *points, *server])
