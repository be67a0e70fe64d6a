"""llama.cpp, start to end, on this CPU: ``python -m tests.engine.llama_live FOLDER [MACHINE]``.

Its sources come with llama-cpp-python, are built in FOLDER and run two tiny models: llama-bench and
llama-batched-bench time baselines, llama-server a draft model and n-grams. Constants are fitted to some rows
and judged on others: a draft length, a batch, and all of n-gram drafting. Files and errors go to
results/MACHINE/llamacpp.
"""

import json
import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

from perfmodel.answers.question import Query
from perfmodel.specs import load_calibration
from perfmodel.validate.engine.calibrate import calibrate
from perfmodel.validate.engine.calibration_words import lines
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.timing import GivenFacts, Timing
from tests.engine.held_out import BASE, QUIET_LOAD, is_held_out, judge
from tests.engine.live import ROOT
from tests.engine.llama_lines import main as take_lines
from tests.engine.llama_tiny import FIRST, successors
from tests.engine.servers import started

VERSION = "0.3.36"
COMMIT = "0c1e57098"
TARGETS = ("llama-bench", "llama-batched-bench", "llama-server", "llama-quantize")
OFF = ("CURL", "BUILD_TESTS", "BUILD_EXAMPLES")
THREADS = "1"
"""One core for the model: the other is the client's."""
GAMMAS = (2, 3, 5)
BATCHES = (1, 2, 4)
PROMPTS = (512, 2048)
NEW_TOKENS = 96
DEEPEST = 8192
KINDS = {"draft": ("draft-simple", "--spec-draft-n-max", "--spec-draft-n-min"), "ngram": ("ngram-simple",)}
WANTED = 0.10
"""Largest mean error of TPOT, and of speedups, on points held out, on a quiet machine."""
NGRAM = 3
"""Tokens that an n-gram draft matches, and drafts."""


def build(folder: Path) -> Path:
    """The folder of llama.cpp's programs, built where they are missing, with the models next to them."""
    programs = folder / "build" / "bin"
    if not all((programs / name).exists() for name in TARGETS):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        package = f"llama-cpp-python=={VERSION}"
        subprocess.run([*pip, "--no-binary", "llama-cpp-python", package], check=True)
        with tarfile.open(folder / f"llama_cpp_python-{VERSION}.tar.gz") as sources:
            sources.extractall(folder, filter="data")
        flags = [f"-DLLAMA_{name}=OFF" for name in OFF]
        place = ["-S", source(folder), "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release"]
        subprocess.run(["cmake", "-G", "Ninja", *place, *flags], check=True)
        subprocess.run(["ninja", "-C", folder / "build", *TARGETS], check=True)
    models = folder / "models"
    if not (models / "llama-draft.gguf").exists():
        models.mkdir(exist_ok=True)
        writer = Path(__file__).with_name("llama_tiny.py")
        subprocess.run([sys.executable, writer, source(folder) / "gguf-py", models], check=True)
        for name in ("llama-target", "llama-draft"):
            files = models / f"{name}-f16.gguf", models / f"{name}.gguf"
            subprocess.run(
                [programs / "llama-quantize", *files, "Q8_0"], check=True, stdout=subprocess.DEVNULL
            )
    return programs


def source(folder: Path) -> Path:
    """llama.cpp in the package."""
    return folder / f"llama_cpp_python-{VERSION}" / "vendor" / "llama.cpp"


def benches(programs: Path, models: Path, out: Path) -> None:
    """Baselines: of one sequence at all depths, and of several."""
    alone = ["llama-bench", "-p", "0", "-n", "32", "-r", "3", "-o", "json"]
    alone += ["-d", ",".join(map(str, (*PROMPTS, DEEPEST)))]
    several = ["llama-batched-bench", "-npp", ",".join(map(str, PROMPTS)), "-ntg", "64"]
    several += ["-npl", ",".join(map(str, BATCHES)), "-c", "16384", "--output-format", "jsonl"]
    for (program, *words), file in ((alone, "bench.json"), (several, "batched.jsonl")):
        if not (out / file).exists():
            command = [programs / program, "-m", "llama-target.gguf", "-t", THREADS, *words]
            printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=models).stdout
            (out / file).write_text(
                "".join(x + "\n" for x in printed.splitlines() if x.strip()[:1] in '[]{}"')
            )


def serve(programs: Path, models: Path, out: Path, kind: str, gamma: int) -> None:
    """Answers of a server that drafts, a file for each batch: prompts are cached before they are timed."""
    paths = {batch: out / f"{kind}-K{gamma}-B{batch}.jsonl" for batch in BATCHES}
    if all(path.exists() for path in paths.values()):
        return
    method, *lengths = KINDS[kind]
    words = [programs / "llama-server", "-m", models / "llama-target.gguf", "--spec-type", method]
    words += ["-c", "16384", "-np", "4", "-t", THREADS]
    if kind == "draft":
        words += ["-md", models / "llama-draft.gguf", "--spec-draft-p-min", "0"]
        words += [word for flag in lengths for word in (flag, str(gamma))]
    else:
        words += ["--spec-ngram-simple-size-n", str(NGRAM), "--spec-ngram-simple-size-m", str(gamma)]
    with started(words, models.parent / f"server-{kind}-{gamma}.log") as url:
        for batch, path in paths.items():
            written: list[str] = []
            for prompt in PROMPTS:
                with ThreadPoolExecutor(batch) as clients:
                    for tokens in (1, NEW_TOKENS):
                        calls = [(url, slot, prompt, tokens) for slot in range(batch)]
                        answers = list(clients.map(lambda each: ask(*each), calls))
                written += [json.dumps({"timings": timings}) for timings in answers]
            path.write_text("\n".join(written) + "\n")


def ask(url: str, slot: int, prompt: int, tokens: int) -> dict[str, float]:
    """The timings of an answer to a prompt that walks the target's circle, so that n-grams are found."""
    walk = successors(0.0)
    text = [FIRST + 7 * slot]
    while len(text) < prompt:
        text.append(walk[text[-1]])
    body = {"prompt": text, "id_slot": slot, "n_predict": tokens, "cache_prompt": True}
    body |= {"temperature": 0, "ignore_eos": True}
    request = Request(f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=600) as answer:
        timings: dict[str, float] = json.load(answer)["timings"]
    return timings


def rows(out: Path, kind: str) -> list[Timing]:
    """The timings of the files of a kind; their names have draft length and batch."""
    timings: list[Timing] = []
    for path in sorted(out.glob(f"{kind}-K*-B*.jsonl")):
        _, gamma, batch = path.stem.split("-")
        timings += read(path, GivenFacts(gamma=int(gamma[1:]), batch=float(batch[1:])))
    return timings


def errors(out: Path) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Mean errors of a folder's points held out, by kind of draft, and lines about them and the fit."""
    target, draft, device = (str(out / name) for name in ("target.json", "draft.json", "../device.yaml"))
    query = Query(target, device, 1, 1, draft=draft, alpha=0.5, calibration=BASE, weights="q8_0")
    baseline = [t for name in ("bench.json", "batched.jsonl") for t in read(out / name, GivenFacts())]
    timed = [*baseline, *rows(out, "draft")]
    fitted = [t for t in timed if not is_held_out(t)]
    subject = EngineSubject.of(query, "llama.cpp", COMMIT)
    calibrated = calibrate(fitted, query, [load_calibration(BASE)], subject, ("llama.cpp",))
    plain = [t for t in baseline if not is_held_out(t)]
    text = lines(calibrated)
    ngram = [*rows(out, "ngram"), *(t for t in baseline if is_held_out(t))]
    unseen = {"draft model": [t for t in timed if is_held_out(t)], "n-gram": ngram}
    by_kind: dict[str, dict[str, float]] = {}
    for kind, drafted in (("draft model", query), ("n-gram", replace(query, draft="ngram"))):
        by_kind[kind], compared = judge(calibrated, drafted, unseen[kind], plain)
        text += [f"\n{kind}, held out: TPOT measured, predicted", *compared]
    return by_kind, text


def main(folder: Path, machine: str) -> int:
    """0 where the errors are as wanted, or the machine was busy."""
    programs = build(folder)
    if take_lines(programs / "llama-server"):
        return 1
    os.chdir(ROOT)
    out = Path("results") / machine / "llamacpp"
    load = os.getloadavg()[0]
    out.mkdir(parents=True, exist_ok=True)
    for name in ("target", "draft"):
        (out / f"{name}.json").write_text((folder / "models" / f"llama-{name}.json").read_text())
    benches(programs, folder / "models", out)
    for gamma in GAMMAS:
        serve(programs, folder / "models", out, "draft", gamma)
    serve(programs, folder / "models", out, "ngram", NGRAM)
    summary, text = errors(out)
    print("\n".join([*text, json.dumps(summary, indent=2)]))
    (out / "summary.json").write_text(json.dumps({"load_average": load, "errors": summary}, indent=2) + "\n")
    return int(
        load <= QUIET_LOAD
        and any(off["tpot"] > WANTED or off["speedup"] > WANTED for off in summary.values())
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else "cpu-engine"))
