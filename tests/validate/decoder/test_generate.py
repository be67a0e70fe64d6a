"""The ``generate`` command and the comparison beneath it."""

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import typer
from safetensors.torch import save_file
from typer.testing import CliRunner

from perfmodel.answers.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.speculation.tree import Tree
from perfmodel.validate.cli.generate import generate
from perfmodel.validate.decoder import kv
from perfmodel.validate.decoder.compare import Run, compare, difference, run
from perfmodel.validate.decoder.job import Job, every_method
from perfmodel.validate.decoder.levels import level_lines
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.speculative import Generation
from perfmodel.validate.decoder.table import Predicted, lines
from perfmodel.validate.decoder.tokens import Bytes, end_tokens, tokenizer
from perfmodel.validate.decoder.two_levels import LevelCounts
from perfmodel.validate.decoder.weights import save_tensors
from perfmodel.validate.lm import CHECKPOINT
from perfmodel.validate.lm.train import configuration

app = typer.Typer()
app.command()(generate)
SHORT = ["--context", "80", "--new-tokens", "12", "--batch", "2", "--threads", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_model: Callable[..., Model]) -> str:
    path = tmp_path_factory.mktemp("model")
    model = make_model(vocab_size=256)
    (path / "config.json").write_text(json.dumps(configuration(model.spec)))
    save_file(save_tensors(model), path / "model.safetensors")
    return str(path)


def output(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, *SHORT], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def refused(says: str, *arguments: str) -> None:
    done = CliRunner().invoke(app, [*SHORT, *arguments])
    assert isinstance(done.exception, InputError)
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)


def test_every_draft_cache_is_shown(folder: str) -> None:
    text = output("--checkpoint", folder, "--dtype", "fp64", "--gamma", "3")
    for name in kv.names():
        assert f"\n{name}" in text
    assert "all outputs equal plain decoding, token for token" in text
    assert "--- continuation ---" in text
    assert "accepted 0..3" in text


def test_predicted_stands_beside_measured(folder: str) -> None:
    text = output("--checkpoint", folder, "--draft-kv", "snapkv:40", "--hardware", "h100-sxm-80gb", "--dtype", "bf16")
    row = next(line for line in text.splitlines() if line.startswith("snapkv:40")).split()
    assert float(row[4]) > 0
    assert "(predicted " in text


def test_the_prompt_file_is_continued(folder: str, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("x" * 100 + "the end of the prompt")
    text = output("--checkpoint", folder, "--prompt-file", str(prompt), "--draft", "ngram")
    assert "the end of the prompt\n--- continuation ---" in text
    assert "\nngram " in text


def test_a_separate_draft_model_and_sampling(folder: str) -> None:
    text = output("--checkpoint", folder, "--draft", folder, "--draft-kv", "streamingllm:24", "--temperature", "0.8")
    assert "draft model" in text
    assert "all outputs equal" not in text


def test_token_trees(folder: str) -> None:
    """Sequoia's for rates that a star measures first, and one as drawn beside what given rates make expect of it."""
    asked = ("--checkpoint", folder, "--draft-kv", "streamingllm:24", "--draft-kv", "snapkv:40", "--dtype", "fp64")
    text = output(*asked, "--tree", "sequoia:12", "--gamma", "3")
    assert ", token trees, draft self" in text
    assert "all outputs equal plain decoding, token for token" in text
    for name in ("streamingllm:24", "snapkv:40"):
        nodes = next(line for line in text.splitlines() if line.startswith(f"{name}: tree of "))
        widths = [int(width) for width in nodes.split(" nodes, ")[1].split()[0].split("-")]
        assert sum(widths) <= 12
        assert len(widths) <= 4
    assert text.count("expected of a star's rates: ") == 2
    text = output(*asked, "--tree", "3x2", "--rates", "0.5,0.25,0.125")
    assert "streamingllm:24: tree of 10 nodes, 1-3-6 by level; tokens/it " in text
    assert f"  {1 + 0.875 * 1.75:.2f} expected of the given rates: 0.50 0.25 0.12" in text
    assert "accepted 0..2" in text


def test_a_tree_is_predicted_by_what_a_tree_costs(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain given as a tree has the chain's prediction; the engine is asked for the tree that was run."""
    asked = ("--checkpoint", folder, "--draft-kv", "full", "--hardware", "h100", "--dtype", "fp32")
    rows = [
        next(line for line in output(*asked, *shape).splitlines() if line.startswith("full ")).split()
        for shape in (["--gamma", "2"], ["--tree", "1x1"])
    ]
    assert rows[0][8] == rows[1][8], "the same acceptance"
    assert rows[0][4] == rows[1][4]
    trees: list[Tree] = []

    def speedup(scenario: object, batch: float, context: float, tree: Tree) -> float:
        trees.append(tree)
        assert (batch, context) == (2, 80)
        return 1.25

    monkeypatch.setattr("perfmodel.speculation.tree_cost.speedup", speedup)
    row = next(line for line in output(*asked, "--tree", "3x2").splitlines() if line.startswith("full ")).split()
    assert row[4] == "1.25"
    (tree,) = trees
    assert tree.widths == (1, 3, 6)
    assert tree.tokens_per_iteration == pytest.approx(float(row[8]), abs=0.005)


def test_two_levels_are_predicted(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is asked for both levels, with the rates that were measured in them."""
    asked: list[Query] = []
    inner = resolve

    def spy(query: Query) -> object:
        asked.append(query)
        return inner(query)

    monkeypatch.setattr("perfmodel.answers.query.resolve", spy)
    text = output(
        *("--checkpoint", folder, "--draft", folder, "--draft-kv", "streamingllm:16", "--middle-kv", "snapkv:40"),
        *("--gamma", "3", "--inner-gamma", "2", "--hardware", "h100", "--dtype", "bf16"),
    )
    row = next(line for line in text.splitlines() if line.startswith("snapkv:40 < streamingllm:16 ")).split()
    assert 0 < float(row[6]) < float(row[10]), "predicted is less than tokens per iteration"
    small, sparse = asked
    assert (small.draft, small.draft_kv) == (folder, "streamingllm:16")
    assert (sparse.draft, sparse.draft_kv) == ("self", "snapkv:40")
    rates = [line.split("rate ")[1].split(";")[0] for line in text.splitlines() if ": rate " in line]
    assert [f"{small.alpha:.2f}", f"{sparse.alpha:.2f}"] == rates


def test_two_levels(folder: str) -> None:
    asked = ("--checkpoint", folder, "--draft", folder, "--middle-kv", "snapkv:40", "--inner-gamma", "2")
    text = output(*asked, "--gamma", "3", "--dtype", "fp64", "--draft-kv", "streamingllm:16")
    assert "\nsnapkv:40 < streamingllm:16 " in text
    assert "accepted 0..5" in text
    assert "all outputs equal plain decoding, token for token" in text
    assert "snapkv:40 < streamingllm:16: gamma 2 below, 3 above; measured (expected of the rates):" in text
    assert "small draft for the sparse target: rate " in text


def test_the_levels_rates_and_expectations_by_hand() -> None:
    """gamma_1 = 1 with half of 8 small tokens accepted: rounds gain 1.5; gamma_2 = 2: 1.5 rounds, m is 2 or 3 with
    3/4 and 1/4. The full target accepts 6 tokens in 4 iterations, stopping short in 2 of them: 6 of 8."""
    counts = LevelCounts((4, 4), iterations=4, accepted=6, complete=2)
    request = Request(1, 8, 8, 2, "model", middle_kv="snapkv:4", inner_gamma=1)
    made = Run(request, Generation([[1]], [[0, 0, 0, 0]]), 1.0, 1, 1, 0.0, 0.0, 1.0, counts=counts)
    assert counts.alphas == (0.5, 0.75)
    assert (counts.rounds, counts.tokens_per_round, counts.drafted, counts.tokens_per_iteration) == (2, 1.5, 3, 2.5)
    gained = 1 + 0.75 + 0.75**2 + 0.25 * 0.75**3
    assert level_lines(made)[1:] == [
        "  small draft for the sparse target: rate 0.50; tokens/round 1.50 (1.50); rounds/it 2.00 (1.50)",
        f"  sparse target for the full one: rate 0.75; drafted/it 3.00 (2.25); tokens/it 2.50 ({gained:.2f})",
    ]


def test_random_weights_and_scripted_acceptance(make_model: Callable[..., Model], folder: str) -> None:
    text = output(
        "--checkpoint", folder, "--weights", "random:3", "--alpha", "1.0", "--draft-kv", "full", "--gamma", "2"
    )
    histogram = text.splitlines()[-2].split()[-3:]
    assert histogram[:2] == ["0", "0"]
    assert int(histogram[2]) > 0


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("only one of them", ["--checkpoint", "x", "--model", "y"]),
        ("--gamma", ["--gamma", "zero"]),
        ("--threads", ["--threads", "0"]),
        ("--seed: must be in 0 ..", ["--seed", "-1"]),
        ("--hardware: no device named", ["--hardware", "nope"]),
        ("--checkpoint: must be a folder", ["--checkpoint", "llama-68m"]),
        ("--draft: no model named", ["--draft", "/nope"]),
        ("--draft-tp: must divide", ["--draft", str(CHECKPOINT), "--draft-tp", "0"]),
        ("--context: no held-out file", ["--context", "1m", "--new-tokens", "1", "--batch", "1"]),
        ("model llama-3.1-405b: must fit in the", ["--model", "llama-3.1-405b", "--dtype", "fp64"]),
        ("--device", ["--device", "tpu"]),
        ("--dtype", ["--model", "llama-68m", "--dtype", "fp4"]),
        ("--tp: must be the number of processes", ["--tp", "2"]),
        ("no model named", ["--model", "llama-9-8b"]),
        ("--tree: must be sequoia:NODES or children by level", ["--tree", "3y2"]),
        ("--tree: must be sequoia:NODES with 2 to 1024 nodes", ["--tree", "sequoia:1"]),
        ("--tree: must be grown by a draft that runs a model", ["--tree", "2x2", "--draft", "ngram"]),
        ("--alpha: must not be given with --tree", ["--tree", "2x2", "--alpha", "0.5"]),
        ("at most 1 in sum", ["--tree", "2x2", "--rates", "0.9,0.2"]),
        ("--tree: must be worth drafting", ["--tree", "sequoia:4", "--rates", "0,0"]),
        ("--rates: is of a tree's children", ["--rates", "0.9"]),
        ("--middle-kv: must stand over a separate --draft model", ["--middle-kv", "full"]),
        ("--inner-gamma", ["--inner-gamma", "0"]),
        ("--prompt-file: needs a byte-level model", ["--model", "llama-68m", "--prompt-file", __file__]),
    ],
)
def test_wrong_flags(says: str, arguments: list[str]) -> None:
    refused(says, *arguments)


def test_wrong_prompt_files(folder: str, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("short")
    refused("must hold 80 tokens or more, given 5", "--checkpoint", folder, "--prompt-file", str(tmp_path / "short"))
    refused("must be a readable text file", "--checkpoint", folder, "--prompt-file", str(tmp_path / "none"))


def test_a_batch_beyond_memory_is_refused_before_its_prompts_are_made(folder: str) -> None:
    refused("KV cache: must fit in the", "--checkpoint", folder, "--batch", "900m")


def test_graphs_are_refused_on_a_cpu(folder: str) -> None:
    refused("--graphs: needs a CUDA device", "--checkpoint", folder, "--graphs")


def test_budgets_follow_the_context() -> None:
    assert "snapkv:2048" in every_method(16384, 4)
    assert "streamingllm:64" in every_method(100, 4)


def test_bf16_differences_are_near_ties(make_model: Callable[..., Model], prompts: list[list[int]]) -> None:
    """In bf16 outputs may differ from plain decoding, but only where two scores are nearly the same."""
    model, found = make_model(dtype=torch.bfloat16), []
    asked = Request(4, 70, 80, 4)
    requests = [Request(4, 70, 80, 4, draft_kv=method) for method in every_method(70, 4)[:4]]
    for one in compare(model, [asked, *requests], prompts)[1]:
        if one.difference is not None:
            found.append(one.difference.margin)
    assert all(margin <= 4 for margin in found), found


def test_a_real_difference_is_no_near_tie(target: Model) -> None:
    asked = Request(1, 4, 3)
    same = Generation([[1, 2, 3]], [[3]])
    assert difference(target, asked, [[5, 6, 7, 8]], same, same) is None
    told = difference(target, asked, [[5, 6, 7, 8]], same, Generation([[1, 9, 3]], [[3]]))
    assert told is not None
    assert (told.sequence, told.position) == (0, 1)
    assert told.margin > 1e6


@pytest.mark.parametrize("tokens", [[1, 2], [1, 2, 3, 4]])
def test_ending_elsewhere_is_a_difference(target: Model, tokens: list[int]) -> None:
    told = difference(
        target, Request(1, 4, 4), [[5, 6, 7, 8]], Generation([[1, 2, 3]], [[3]]), Generation([tokens], [[3]])
    )
    assert told is not None
    assert told.margin == math.inf


def test_the_table_says_what_was_predicted(target: Model, prompts: list[list[int]]) -> None:
    plain, runs = compare(target, [Request(4, 70, 20, 2, draft_kv="snapkv:24,window=8")], prompts)
    text = "\n".join(lines(plain, runs, [Predicted(1234.5, 1.75)]))
    assert "(predicted 1234)" in text
    assert " 1.75 " in text
    assert plain.draft_s == 0
    assert runs[0].speedup_from_parts(plain) > 0


def test_the_figures_of_a_run_by_hand() -> None:
    """100 tokens in 2 s over 10 iterations of 4 x 10 ms + 50 ms, 2.5 gained in each; plain: 50 tokens in 2 s."""
    drafted = Request(2, 70, 20, 4)
    one = Run(drafted, Generation([[0] * 14] * 2, [[3, 2, 2, 1, 1], [0, 0, 0, 1, 0]]), 2.0, 100, 10, 0.0, 0.01, 0.05)
    plain = Run(Request(2, 70, 20), Generation([[0] * 26] * 2, [[25]] * 2), 2.0, 50, 25, 0.0, 0.0, 0.04)
    assert one.tokens_per_s == 50
    assert one.outside_s == pytest.approx(0.2 - 0.09)
    assert one.generation.tokens_per_iteration == pytest.approx(2.6)
    assert one.generation.alpha == pytest.approx(16 / 25)
    assert one.speedup_from_parts(plain) == pytest.approx(2.6 * 0.04 / 0.09)
    row = lines(plain, [one], [None])[2].split()
    assert row[:3] == ["full", "50.0", "2.00"]


def test_what_is_timed(target: Model, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that ticks once a look: the loop is looked at after each iteration, gamma draft steps together."""
    ticks = itertools.count()
    monkeypatch.setattr("perfmodel.validate.decoder.compare._now", lambda model: float(next(ticks)))
    timed = run(target, Request(4, 70, 20, 4), prompts)
    assert (timed.prefill_s, timed.draft_s, timed.verify_s) == (1.0, 0.25, 1.0)
    assert timed.timed_tokens == 4 * 19
    assert timed.timed_iterations == max(map(sum, timed.generation.histograms)) < next(ticks)
    assert timed.seconds == timed.timed_iterations, "the clock stops at the iteration that finished the last sequence"


def test_the_prediction_is_asked_for_what_was_run(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Query] = []

    def answer(query: Query) -> SimpleNamespace:
        asked.append(query)
        return SimpleNamespace(ar_throughput_tokens_per_s=1.0, speedup=1.5)

    monkeypatch.setattr("perfmodel.answers.whatif.whatif", answer)
    text = output("--checkpoint", folder, "--draft-kv", "snapkv:40", "--hardware", "h100-sxm-80gb", "--dtype", "bf16")
    row = next(line for line in text.splitlines() if line.startswith("snapkv:40")).split()
    (query,) = asked
    assert (query.batch, query.context, query.gamma, query.new_tokens) == (2, 80, 4, 12)
    assert (query.weights, query.kv_dtype, query.draft_kv) == ("bf16", "bf16", "snapkv:40")
    assert query.tokens_per_iteration == pytest.approx(float(row[8]), abs=0.005)
    assert row[4] == "1.50"


def test_tokenizers(make_model: Callable[..., Model], tmp_path: Path) -> None:
    byte_model = make_model(vocab_size=256)
    reader = tokenizer(byte_model.spec, None)
    assert isinstance(reader, Bytes)
    assert reader.decode(reader.encode("é\n")) == "é\n"
    assert reader.decode([255]) == "\ufffd"
    other = make_model().spec
    assert tokenizer(other, tmp_path) is None
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json: (must be|reading it needs)"):
        tokenizer(other, tmp_path)


def test_a_folders_own_tokenizer(make_model: Callable[..., Model], tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"hello": 0, "world": 1, "?": 2}, unk_token="?")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    reader = tokenizer(make_model().spec, tmp_path)
    assert reader is not None
    assert reader.encode("hello world") == [0, 1]
    assert reader.decode([1, 0]) == "world hello"


@pytest.mark.parametrize(("given", "wanted"), [(3, (3,)), ([3, 4], (3, 4)), (None, ())])
def test_end_tokens(tmp_path: Path, given: object, wanted: tuple[int, ...]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": given}))
    assert end_tokens(tmp_path) == wanted
    assert end_tokens(None) == ()


@pytest.mark.parametrize("given", ["x", 3.5, True, [1, None], [[1]]])
def test_end_tokens_that_are_none(tmp_path: Path, given: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": given}))
    with pytest.raises(InputError, match=r"config.json: eos_token_id: must be a token number"):
        end_tokens(tmp_path)


def test_a_job_names_its_parts(folder: str) -> None:
    job = Job(folder, 4, 2, 8, draft="ngram:2")
    assert job.folder == Path(folder)
    assert job.separate_draft is None
    assert [request.draft for request in job.requests(64)] == ["ngram:2"]
