"""Reads benchmark files of serving engines and of their clients. The content shows the format.

A file may have several JSON objects of one format.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from perfmodel.errors import InputError
from perfmodel.reading import read_text
from perfmodel.specs import files
from perfmodel.validate.engine.formats import clients, desktop, llama_cpp, trtllm, vllm
from perfmodel.validate.engine.headed_parts import read_parts
from perfmodel.validate.engine.pastes import form_of, text_forms
from perfmodel.validate.engine.record import EngineRecord
from perfmodel.validate.engine.text import is_json, parse_objects, plain
from perfmodel.validate.engine.timing import GivenFacts, Timing
from perfmodel.validate.records import check_record


class BenchFormat(NamedTuple):
    """A format of JSON objects that benchmarks write.

    - keys: sets of keys; an object of this format has all keys of at least one set.
    - read: returns the timed steps in an object.
    - engine: the engine that writes the format; empty if several engines do.
    """

    title: str
    keys: tuple[set[str], ...]
    read: Callable[[str, dict[str, Any], GivenFacts], list[Timing]]
    engine: str = ""

    def has(self, run: dict[str, Any]) -> bool:
        """Whether a JSON object is of this format."""
        return any(keys <= run.keys() for keys in self.keys)


def _record(where: str, data: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """The timed points of a record of a live server or of a calibration, without the failed points."""
    record = files.parse(EngineRecord, data, where)
    return [point.timing(where) for point in record.points if point.status == "ok"]


RECORD = BenchFormat("records of perfmodel validate engine", ({"subject", "points"},), _record)
FORMATS = {
    "record": RECORD,
    "vllm_forward": BenchFormat(
        "vllm bench forward --output-json", ({"median_us", "requests"},), vllm.forward
    ),
    "vllm_serve": BenchFormat(
        "vllm bench serve --save-result",
        ({"max_concurrency", "endpoint_type", "duration"}, {"max_concurrency", "model_id", "duration"}),
        vllm.serve,
    ),
    "sglang": BenchFormat(
        "sglang.bench_serving --output-file", ({"accept_length", "median_tpot_ms"},), clients.sglang
    ),
    "sglang_speculative": BenchFormat(
        "bench_speculative.py of SGLang",
        ({"steps", "topk", "num_draft_tokens", "acc_length", "step_time"},),
        clients.sglang_speculative,
        "sglang",
    ),
    "sglang_costs": BenchFormat(
        "SGLang's cost table (dspark_sps_profiler)",
        ({"sample_batch_tokens", "sample_steps_per_sec"},),
        clients.sglang_costs,
    ),
    "llama_bench": BenchFormat(
        "llama-bench -o json or llama-batched-bench --output-format jsonl",
        ({"n_gen", "avg_ns"}, {"t_tg", "pl"}),
        llama_cpp.bench,
        "llamacpp",
    ),
    "llama_server": BenchFormat(
        "responses of llama.cpp's server (timings)",
        ({"timings"}, {"predicted_ms"}),
        llama_cpp.server,
        "llamacpp",
    ),
    "lm_studio": BenchFormat(
        "responses of LM Studio's server (stats)", ({"stats", "usage"},), desktop.lm_studio
    ),
    "ollama": BenchFormat(
        "responses of Ollama's server", ({"eval_count", "eval_duration"},), desktop.ollama, "llamacpp"
    ),
    "guidellm": BenchFormat("guidellm benchmark run (JSON)", ({"benchmarks", "metadata"},), clients.guidellm),
    "aiperf": BenchFormat(
        "genai-perf or aiperf profile (profile_export_*.json)",
        ({"inter_token_latency", "input_config"},),
        clients.aiperf,
    ),
    "trtllm_bench": BenchFormat(
        "trtllm-bench throughput --report_json", ({"request_info", "performance"},), trtllm.report, "trtllm"
    ),
    "llmd": BenchFormat(
        "llm-d benchmark report 0.2 (JSON or YAML)", ({"scenario", "run", "results"},), clients.llmd
    ),
}
UNKNOWN = (
    "holds no benchmark known here: paste a log of vLLM, SGLang, llama.cpp or TensorRT-LLM, a page of "
    "metrics, the output of a benchmark client, or a speed alone (35 tok/s); docs/engine.md lists all forms"
)


def read(path: Path, facts: GivenFacts) -> list[Timing]:
    """The timed steps in a file of any format. Raises InputError, which names the file and the fault."""
    text = read_text(path)
    printed = plain(text)
    form = form_of(printed)
    if form is not None:
        return read_parts(form, path.name, printed, facts)
    if path.suffix in (".yaml", ".yml"):
        runs = [files.read_mapping(path)]
    else:
        runs = parse_objects(str(path), text)
    known = format_of(runs)
    if known is None:
        raise InputError(f"{path}: holds no benchmark known here; known: {titles()}")
    if known is RECORD:
        check_record(path, text)
    return _timings(known, path.name, runs, facts)


def read_pasted(where: str, text: str, facts: GivenFacts) -> list[Timing]:
    """The same as `read`, for a text without a file. Raises InputError, which names `where` and the fault."""
    form = form_of(text)
    if form is not None:
        return read_parts(form, where, text, facts)
    runs = parse_objects(where, text) if is_json(text) else []
    known = format_of(runs) if runs else None
    if known is None:
        raise InputError(f"{where}: {UNKNOWN}")
    return _timings(known, where, runs, facts)


def _timings(known: BenchFormat, name: str, runs: list[dict[str, Any]], facts: GivenFacts) -> list[Timing]:
    timings = []
    for n, run in enumerate(runs, 1):
        where = name if len(runs) == 1 else f"{name}: run {n}"
        timings += known.read(where, run, facts)
    return timings


def format_of(runs: list[dict[str, Any]]) -> BenchFormat | None:
    """The format that all of these objects have; None if there is none."""
    return next((known for known in FORMATS.values() if all(map(known.has, runs))), None)


def titles() -> str:
    """The titles of all formats."""
    files_of = [known.title for known in FORMATS.values()]
    printed = [form.title for form in text_forms()]
    return "; ".join([*files_of, *printed])
