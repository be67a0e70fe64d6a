"""Runs of a live vLLM that are not in a folder yet: timed by our driver and by vLLM's own benchmark."""

import json
import subprocess
from pathlib import Path

from perfmodel.cli import run as perfmodel
from tests.engine.held_out import BASE, HELD_OUT_BATCH
from tests.engine.rates import OUTPUT, RATE_GAMMAS, REQUESTS, rates
from tests.engine.servers import environment, served

GAMMAS = (0, 2, 3, 5)
BATCHES = (1, 2, 4, 8)
PROMPTS = (256, 768)
NEW_TOKENS = 160
BENCH_TOKENS = 3 * NEW_TOKENS
"""New tokens of the benchmark's one round: as many as the driver's three rounds have."""
NOT_KEPT = ("generated_texts", "errors", "tokenizer_id")
"""Keys of a benchmark's file with texts and paths."""


def collect(engine: Path, folder: Path) -> None:
    """Time every server that is not in the folder yet."""
    for gamma in GAMMAS:
        is_timed = bool(list(folder.glob(f"engine-*-K{gamma}.json")))
        batches = [batch for batch in BATCHES if batch != HELD_OUT_BATCH]
        missing = [batch for batch in batches if not bench_file(folder, gamma, batch).exists()]
        needs_rates = gamma in RATE_GAMMAS and not list(folder.glob(f"rate-K{gamma}-*.json"))
        if is_timed and not missing and not needs_rates:
            continue
        config = {
            "method": "draft_model",
            "model": str(engine / "models" / "draft"),
            "num_speculative_tokens": gamma,
        }
        with served(engine, engine / f"server-K{gamma}.log", config if gamma else None) as url:
            if not is_timed:
                drive(url, folder)
            for batch in missing:
                closed = ["--max-concurrency", str(batch), "--num-prompts", str(batch)]
                bench(engine, url, bench_file(folder, gamma, batch), BENCH_TOKENS, closed)
            if needs_rates:
                bench_at_rates(engine, url, folder, gamma)


def bench_file(folder: Path, gamma: int, batch: int) -> Path:
    """The benchmark's file of a closed loop."""
    return folder / f"bench-K{gamma}-{batch}.json"


def drive(url: str, folder: Path) -> None:
    """Time a server by our driver."""
    flags = {
        "--url": url,
        "--model": folder / "target.json",
        "--hardware": folder / "device.yaml",
        "--draft": folder / "draft.json",
        "--calibration": BASE,
        "--batches": ",".join(map(str, BATCHES)),
        "--prompts": ",".join(map(str, PROMPTS)),
        "--new-tokens": NEW_TOKENS,
        "--machine": folder.name,
        "--results": folder.parent,
    }
    if perfmodel(["validate", "engine", *spelled(flags)]):
        raise SystemExit("the driver failed")


def bench_at_rates(engine: Path, url: str, folder: Path, gamma: int) -> None:
    """One file of the benchmark for each rate, which follow from the baseline's fullest run."""
    for rate in rates(bench_file(folder, 0, BATCHES[-1])):
        opened = ["--request-rate", str(rate), "--num-prompts", str(REQUESTS)]
        bench(engine, url, folder / f"rate-K{gamma}-{rate}.json", OUTPUT, opened)


def spelled(flags: dict[str, object]) -> list[str]:
    """Flags with their values, as words."""
    return [str(word) for flag in flags.items() for word in flag]


def bench(
    engine: Path, url: str, path: Path, new_tokens: int, load: list[str], prompt: int = PROMPTS[0]
) -> None:
    """One file of ``vllm bench serve``, without texts, paths and more digits than a clock has."""
    fixed = "--dataset-name random --temperature 0 --ignore-eos --num-warmups 1 --save-result --save-detailed"
    flags = {
        "--base-url": url,
        "--model": "tiny",
        "--tokenizer": engine / "models" / "target",
        "--random-input-len": prompt,
        "--random-output-len": new_tokens,
        "--result-dir": path.parent,
        "--result-filename": path.name,
    }
    words = [engine / "bin" / "vllm", "bench", "serve", *fixed.split(), *spelled(flags), *load]
    subprocess.run(words, check=True, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = json.loads(path.read_text())
    kept = {key: value for key, value in run.items() if key not in NOT_KEPT}
    kept["itls"] = [[round(gap, 6) for gap in gaps] for gaps in run["itls"]]
    path.write_text(json.dumps(kept, separators=(",", ":")) + "\n")


def device(folder: Path) -> None:
    """A device file with the peaks of this CPU."""
    if (folder / "device.yaml").exists():
        return
    from perfmodel.validate.harness.micro.host import host_spec
    from perfmodel.validate.harness.micro.write import write_yaml
    from perfmodel.validate.records import newest

    if perfmodel(
        ["validate", "microbench", "cpu-quick", "--machine", folder.name, "--results", str(folder.parent)]
    ):
        raise SystemExit("the microbenchmark failed")
    record = newest(folder, "microbench", "microbench")
    spec = host_spec(record, folder.name, BASE)
    write_yaml(spec, folder / "device.yaml", f"Measured: {record.path.name}")
