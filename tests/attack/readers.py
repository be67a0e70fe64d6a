"""Every reader of files: what a valid file is, and the call that reads one."""

import json
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from perfmodel.errors import InputError
from perfmodel.reading import read_rows
from perfmodel.specs import load_model
from perfmodel.specs.huggingface.heads import load_head
from perfmodel.specs.published import PublishedRow
from perfmodel.validate.accuracy.check import check
from perfmodel.validate.engine import formats
from perfmodel.validate.engine.acceptance import AcceptanceSubject, import_file
from perfmodel.validate.engine.timing import GivenFacts
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.records import load_plan, stamped, withdrawn
from perfmodel.validate.studies import gate
from perfmodel.validate.studies.published_engines import ServedRow
from tests import pinned
from tests.attack import hostile, watch
from tests.specs.test_gguf import gguf, qwen3

ROOT = Path(__file__).parents[2]
SUBJECT = AcceptanceSubject("llama-3.1-8b", "ngram", "full", (1000,), 4, gamma_given=False)
WHATIF = "whatif --json --batch 8 --context 16k --gamma 3"
NAMED = f"{WHATIF} --model llama-3.1-8b"
ENGINE_ASK = "validate engine --model llama-3.1-8b --hardware h100 --draft ngram"
SERVER = f"{ROOT}/results/cpu-engine"
SERVER_ASK = f"validate engine --calibration ideal --hardware {SERVER}/device.yaml"
SERVER_ASK += f" --model {SERVER}/target.json --draft {SERVER}/draft.json"
SERVER_ASK += "".join(f" --from {path}" for path in ROOT.glob("results/cpu-engine/engine-*-K0.json"))
RECORD = "cpu-1/20260101T000000Z-x.json"
ACCEPTANCE = """schema_version: 1
source: measured here
rows:
- {target: llama-3.1-8b, draft: self, draft_kv: full, context_tokens: 1000, alpha: 0.8}
- {target: llama-3.1-8b, draft: self, draft_kv: full, context_tokens: 20000, positions: [0.8, 0.7, 0.6]}
"""
SERVED = (
    "traffic --model llama-3.1-8b --hardware h100 --gamma 0 --request-rate 1 --input-len 1k --output-len 9"
)
MIXED = "traffic --model llama-3.1-8b --hardware h100 --gamma 0 --max-concurrency 4 --num-prompts 50"
TRACE = pinned.FILES["trace.csv"]
HASHED = "".join(
    f'{{"timestamp": {n}000, "input_length": 900, "output_length": 9, "hash_ids": [1, {n}]}}\n'
    for n in range(4)
)


@dataclass(frozen=True)
class Reader:
    """seeds: valid files as (text, suffix), or bytes. read: what is called with a spoiled file."""

    seeds: Callable[[], Sequence[tuple[str | bytes, str]]]
    read: Callable[[Path], object]


def files(*patterns: str, most: int = 12) -> Callable[[], list[tuple[str, str]]]:
    """Files of the source tree."""

    @cache
    def found() -> list[tuple[str, str]]:
        paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        return [
            (path.read_text(encoding="utf-8"), path.suffix) for path in paths[:: max(1, len(paths) // most)]
        ]

    return found


@cache
def configs() -> list[tuple[str, str]]:
    """``config.json`` files as published."""
    published = json.loads((ROOT / "tests/specs/published_configs.json").read_text(encoding="utf-8"))
    return [(json.dumps(entry["config"]), ".json") for entry in published.values()]


@cache
def baselines() -> list[tuple[str, str]]:
    """What ``validate check --write`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "baseline.json"
        check(ROOT / "results/cpu-1", baseline=path, write=True)
        return [(path.read_text(encoding="utf-8"), ".json")]


@cache
def records() -> list[tuple[str, str]]:
    """Own records, cut down to a few points."""
    cut = []
    for text, suffix in files("results/cpu-1/*.json")():
        data = json.loads(text)
        cut.append((json.dumps(data | {"points": data["points"][:3]}), suffix))
    return cut


def journals() -> list[tuple[str, str]]:
    """A journal of two rows."""
    lines = ('{"schema_version":1}', '{"key":"a","seconds":1.5}', '{"key":"b"}')
    return [("".join(f"{zlib.crc32(line.encode()):08x} {line}\n" for line in lines), ".journal")]


@cache
def engine_records() -> list[tuple[str, str]]:
    """Records of a server, without samples, that can be read from any folder."""
    cut = []
    for text, suffix in files("results/cpu-engine/engine-*.json")():
        data = json.loads(text.replace('"results/', f'"{ROOT}/results/'))
        points = [{name: value for name, value in p.items() if name != "samples"} for p in data["points"]]
        cut.append((json.dumps(data | {"points": points}), suffix))
    return cut


def given(*texts: tuple[str, str]) -> Callable[[], list[tuple[str, str]]]:
    """Seeds from text."""
    return lambda: list(texts)


def _typed(line: str, place: str = "") -> Callable[[Path], object]:
    """Give a file to a command: ``{}`` is its path, or that of a folder in which it lies at `place`.

    What the command answers must be finite, and what it refuses must be told with the name of the file or
    folder.
    """

    def ask(path: Path) -> None:
        if place:
            (target := path.with_suffix("") / place).parent.mkdir(parents=True)
            path.rename(target)
            path = path.with_suffix("")
        refused, fault = watch.run([part.replace("{}", str(path)) for part in line.split()], path.stem)
        if fault:
            raise AssertionError(fault)
        if refused:
            raise InputError(f"{path}: refused")

    return ask


def _resume(path: Path) -> None:
    Journal.resume(path).close()


def _checkpoint(name: str) -> Callable[[Path], object]:
    """Read a folder in which the file has a name."""

    def read(path: Path) -> None:
        import torch

        from perfmodel.validate.decoder.checkpoint import CheckpointFolder

        folder = path.with_suffix("")
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "llama"}')
        (folder / "a.safetensors").write_bytes(_tensors())
        path.rename(folder / name)
        CheckpointFolder(folder, torch.device("cpu"), torch.float32)

    return read


@cache
def _tensors() -> bytes:
    import torch
    from safetensors.torch import save

    return save({"a": torch.zeros(2, 3), "b": torch.ones(4)})


def _withdrawn(path: Path) -> None:
    folder = path.with_suffix("")
    (folder / "cpu-1").mkdir(parents=True)
    for listed in re.findall(
        r"file: (cpu-1/[-\w]+\.json)\n", path.read_text(encoding="utf-8", errors="replace")
    ):
        (folder / listed).touch()
    path.rename(folder / "withdrawn.yaml")
    withdrawn(folder)


def _engine(path: Path) -> None:
    formats.read(path, GivenFacts(batch=4, input=512, output=128, gamma=3, accepted=2.0))


ENGINE = tuple(f"tests/validate/engine/files/{name}" for name in ("*.json", "*.jsonl", "*.csv"))
READERS: dict[str, Reader] = {
    "device": Reader(files("hardware/gpus/[a-w]*.yaml"), _typed(f"{NAMED} --alpha 0.7 --hardware {{}}")),
    "calibration": Reader(
        files("hardware/calibrations/*.yaml"),
        _typed(f"{NAMED} --alpha 0.7 --hardware h100 --calibration {{}}"),
    ),
    "model": Reader(files("perfmodel/models/*.yaml"), lambda p: load_model(str(p))),
    "config.json": Reader(configs, _typed(f"{WHATIF} --alpha 0.7 --hardware h100 --model {{}}")),
    "GGUF": Reader(
        lambda: [(gguf(*qwen3()), ".gguf")], _typed(f"{WHATIF} --alpha 0.7 --hardware h100 --model {{}}")
    ),
    "draft head": Reader(
        files("tests/validate/engine/files/*config.json"), lambda p: load_head(str(p), load_model("qwen3-8b"))
    ),
    "draft head, asked": Reader(
        files("tests/validate/engine/files/*config.json"),
        _typed(f"{WHATIF} --model qwen3-8b --hardware h100 --draft {{}} --alpha 0.7"),
    ),
    "trace": Reader(
        given((TRACE, ".csv"), (HASHED, ".jsonl")),
        _typed(f"{SERVED} --trace {{}} --json"),
    ),
    "mix": Reader(given((pinned.FILES["mix.yaml"], ".yaml")), _typed(f"{MIXED} --mix {{}} --json")),
    "engine's acceptance, imported": Reader(
        files("tests/validate/engine/files/*.txt", "tests/validate/engine/files/sglang*.json*"),
        _typed("validate acceptance --context 1k --target llama-3.1-8b --draft ngram --gamma 3 --import {}"),
    ),
    "acceptance file": Reader(
        given((ACCEPTANCE, ".yaml")), _typed(f"{NAMED} --hardware h100 --acceptance {{}}")
    ),
    **{
        f"published {name}": Reader(files(f"results/published/{name}.csv"), lambda p, t=row: read_rows(p, t))  # type: ignore[misc]
        for name, row in {"points": PublishedRow, "served": ServedRow, "step_laws": ServedRow}.items()
    },
    "withdrawn list": Reader(files("results/withdrawn.yaml"), _withdrawn),
    "plan": Reader(files("validate/plans/*.yaml"), lambda p: load_plan(str(p))),
    "journal": Reader(journals, _resume),
    "accuracy record": Reader(files("results/accuracy.json"), gate.read),
    "engine's benchmark": Reader(files(*ENGINE, most=30), _engine),
    "engine's acceptance": Reader(
        files("tests/validate/engine/files/*.txt", "tests/validate/engine/files/sglang*.json*"),
        lambda p: import_file(p, None, SUBJECT),
    ),
    "record, checked": Reader(records, _typed("validate check --results {} --json", RECORD)),
    "engine's record, checked": Reader(engine_records, _typed("validate check --results {}", RECORD)),
    "baseline, checked": Reader(
        baselines, _typed(f"validate check --results {ROOT}/results/cpu-1 --baseline {{}}")
    ),
    "record, reported": Reader(records, _typed("validate report cpu-1 --results {}", RECORD)),
    "record, compared": Reader(
        lambda: [r for r in records() if '"measure"' in r[0][:400]],
        _typed("validate compare --set cpu-1 --results {} --json", RECORD),
    ),
    "record, fitted": Reader(
        records, _typed(f"validate calibrate x.y --from-microbench {ROOT}/results/cpu-1 --stack {{}}")
    ),
    "benchmark, fitted": Reader(
        files(*ENGINE, most=30),
        _typed(f"{ENGINE_ASK} --from {{}},batch=4,input=512,output=9 --out {{}}.yaml"),
    ),
    "engine's record, fitted": Reader(engine_records, _typed(f"{SERVER_ASK} --from {{}} --out {{}}.yaml")),
    "prompts": Reader(
        given(('{"text": "a b"}\n[1, 2]\n', ".jsonl")),
        _typed("validate generate --prompts {} --new-tokens 2 --gamma 1"),
    ),
    "safetensors index": Reader(
        given(('{"weight_map": {"a": "a.safetensors"}}', ".json")),
        _checkpoint("model.safetensors.index.json"),
    ),
    "safetensors": Reader(lambda: [(_tensors(), ".safetensors")], _checkpoint("model.safetensors")),
}
NO_FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
}
"""What a path can lead to that no reader may wait for, or read without end."""
MOVED = ("withdrawn list", "safetensors index", "safetensors")
"""Readers of folders, which a spoiled file is moved into."""
STAMPED = tuple(name for name in READERS if "record, " in name)
RESTAMPED = 0.8
"""Share of the spoiled records that get a checksum, so that more than the checksum is tried."""
SHARE = {"accuracy record": 0.1}
"""Readers whose files are large get fewer inputs."""


def attack(tally: watch.Tally, folder: Path, seed: int, count: int) -> None:
    """Give each reader its share of `count` spoiled files; all follow from the seed."""
    each = count / len(READERS)
    for name, reader in READERS.items():
        for number in range(max(2, round(each * SHARE.get(name, 1.0)))):
            rng = Random(f"{seed}:{name}:{number}")
            seed_text, suffix = rng.choice(reader.seeds())
            data = (
                hostile.spoiled(rng, seed_text, suffix)
                if isinstance(seed_text, str)
                else _spoiled_bytes(rng, seed_text)
            )
            if name in STAMPED and rng.random() < RESTAMPED and data.startswith(b"{"):
                data = stamped(data.decode(errors="replace")).encode()
            path = folder / f"{sum(tally.tried.values()):06d}{suffix}"
            path.write_bytes(data)
            refused, fault = watch.read(lambda: reader.read(path), path.stem)  # noqa: B023
            tally.count(name, refused, fault and f"{fault} (seed {seed}, {number})")
    for name, reader in READERS.items():
        for kind, place in NO_FILES.items() if name not in MOVED else ():
            path = folder / (re.sub(r"\W", "-", f"{name} {kind}") + ".json")
            place(path)
            refused, fault = watch.read(lambda: reader.read(path), path.stem)  # noqa: B023
            tally.count(kind, refused, fault and f"{name}: {fault}")


def _spoiled_bytes(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    length = rng.choice((1, 2, 8, 100))
    return rng.choice(
        (data[:at], data[:at] + rng.randbytes(length) + data[at + length :], data[at:], data + data, b"")
    )
