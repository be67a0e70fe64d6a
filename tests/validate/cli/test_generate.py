"""The ``generate`` command."""

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from perfmodel.answers.question import Query, resolve
from perfmodel.speculation.tree import Tree
from perfmodel.speculation.tree_shape import branching, widths
from perfmodel.validate.cli import app as verbs, generated
from perfmodel.validate.cli.generate import default_prompts
from perfmodel.validate.decoder import Generation, Model, Request, kv
from perfmodel.validate.harness.estimate import predicted_times
from perfmodel.validate.harness.side_by_side import TimedRun
from tests.refusals import refused
from tests.validate.tiny_model import configuration, hugging_face_tensors, tiny_spec

app = verbs.commands["generate"]
SHORT = ["--context", "80", "--new-tokens", "12", "--batch", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_model: Callable[..., Model]) -> str:
    path = tmp_path_factory.mktemp("model")
    model = make_model(vocab_size=256)
    (path / "config.json").write_text(json.dumps(configuration(model.spec)))
    save_file(hugging_face_tensors(model), path / "model.safetensors")
    return str(path)


def output(*arguments: str, batch: bool = True) -> str:
    done = CliRunner().invoke(
        app,
        [*arguments, *(SHORT if batch else SHORT[:-2]), "--threads", "1", "--device", "cpu"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    return done.output


def row(text: str, name: str) -> list[str]:
    """The cells of a draft cache's line."""
    return next(line.split() for line in text.splitlines() if line.strip().startswith(f"{name} "))


@pytest.mark.slow
def test_every_draft_cache_is_shown(folder) -> None:
    text = output("--checkpoint", folder, "--dtype", "fp64", "--gamma", "3")
    for name in kv.names():
        assert f"\n {name}" in text
    assert "all outputs equal the baseline, token for token" in text
    assert "--- continuation 2 ---" in text
    assert "accepted 0..3" in text


def test_every_prompt_is_continued(folder, tmp_path) -> None:
    """Documents and texts of different lengths, one sequence each; the last tokens of what is too long."""
    (tmp_path / "some.jsonl").write_text('{"text": "' + "x" * 100 + 'the end of one"}\n[65, 66, 67]\n')
    arguments = ("--checkpoint", folder, "--draft", "ngram", "--prompts", str(tmp_path / "some.jsonl"))
    text = output(*arguments, "--prompt", "a third", "--batch", "3", batch=False)
    assert "a third\n--- continuation 1 ---" in text
    assert "xxx" in text
    assert "the end of one\n--- continuation 2 ---" in text
    assert "ABC\n--- continuation 3 ---" in text
    assert "batch 3, context 80, " in text
    assert row(text, "ngram")
    assert "batch 2, context 80, " in output(*arguments, "--prompt", "a third"), "--batch takes the first"


def test_two_levels(folder) -> None:
    """A small model that is the target itself, below a middle that reads everything: all is accepted, so a
    round gains 3 tokens, and two rounds make the 4 that a verification waits for. The limit of 12 tokens,
    one of them the prefill's, cuts the second iteration.
    """
    text = output(
        *("--checkpoint", folder, "--draft", folder, "--dtype", "fp32", "--gamma", "4"),
        *("--middle-kv", "full", "--draft-kv", "full", "--hardware", "a100"),
    )
    assert "full < full: measured (expected of the rates)" in text
    assert "small model for the middle: rate 1.00; tokens/round 3.00 (3.00); rounds/it 2.00 (2.00)" in text
    assert "middle for the target: rate 1.00; tokens/it 5.50 (7.00)" in text
    speedup = row(text, "full < full")[6]
    assert float(speedup) > 0


def test_token_trees(folder) -> None:
    """With rates r of 1st to 3rd children, 1 + r (1 + r') tokens are expected of a tree 3x2."""
    text = output(
        *("--checkpoint", folder, "--draft-kv", "streamingllm:24", "--draft-kv", "snapkv:40"),
        *("--dtype", "fp64", "--tree", "3x2", "--gamma", "9"),
    )
    assert ", token trees, draft self" in text
    assert "all outputs equal the baseline, token for token" in text
    assert "accepted 0..2" in text
    for name in ("streamingllm:24", "snapkv:40"):
        lines = iter(text.splitlines())
        assert next(line for line in lines if f"{name}: tree of 10 nodes, 1-3-6 by level; tokens/it " in line)
        expected, rates = next(lines).split(" expected of its own rates by rank: ")
        first, second, third = map(float, rates.split())
        by_hand = 1 + (first + second + third) * (1 + first + second)
        assert float(expected) == pytest.approx(by_hand, abs=0.05)


@pytest.mark.parametrize(
    ("drafted", "gamma", "tree"),
    [(["--gamma", "4"], 4, None), (["--tree", "3x2"], 2, branching("3x2"))],
    ids=["chain", "tree"],
)
def test_what_was_run_is_predicted(folder, drafted, gamma, tree) -> None:
    """With the tokens per iteration that were observed, which are printed with two digits."""
    flags = ["--draft-kv", "snapkv:40", "--hardware", "h100-sxm-80gb", "--dtype", "bf16", *drafted]
    text = output("--checkpoint", folder, *flags)
    cells = row(text, "snapkv:40")
    gained = float(cells[8])
    question = Query(folder, "h100-sxm-80gb", 2, 80, gamma, draft_kv="snapkv:40", tokens_per_iteration=gained)
    shape = None if tree is None else Tree(tree, widths(tree), gained)
    step_s, _, speedup = predicted_times(resolve(question), 2, 80, gamma, shape)
    assert f"tokens/s (predicted for h100-sxm-80gb: {2 / step_s:.1f}), T_T " in text
    assert float(cells[4]) == pytest.approx(speedup, abs=0.01)


CPU_MODEL = SimpleNamespace(
    spec=tiny_spec(max_position_embeddings=100), dtype=torch.float32, device=torch.device("cpu")
)
TWO_RANKS = SimpleNamespace(folder=None, tp=2)


@pytest.mark.parametrize(
    ("new", "stated", "length"), [(40, False, 60), (40, True, 80), (100, False, 1), (10, False, 80)]
)
def test_random_prompts_end_where_the_model_does(new, stated, length) -> None:
    """At 100 positions with the new tokens; what is stated is kept."""
    drawn = default_prompts(Request(3, 80, new), TWO_RANKS, CPU_MODEL, stated, 0)
    assert [len(prompt) for prompt in drawn] == [length] * 3


@pytest.mark.parametrize(("kv_dtype", "value_bytes"), [("auto", 4), ("fp8", 1)])
def test_caches_of_random_prompts_must_fit(kv_dtype, value_bytes) -> None:
    """Those of two ranks have half of the heads each."""
    batch = 10**12
    needed_bytes = batch * (60 + 40) * CPU_MODEL.spec.kv_bytes_per_token(value_bytes) / 2
    request = Request(batch, 80, 40, kv_dtype=kv_dtype)
    needs = rf"KV cache: must fit in .* needs {needed_bytes / 1e9:.1f} GB"
    refused(needs, default_prompts, request, TWO_RANKS, CPU_MODEL, False, 0)


def test_the_figures_of_a_run_in_a_line(capsys) -> None:
    """100 tokens in 2 s over 10 iterations of 4 x 10 ms + 50 ms, 2.6 gained in each; plain: 50 tokens in 2
    s.
    """
    speculative = Generation([[0] * 14] * 2, [[3, 2, 2, 1, 1], [0, 0, 0, 1, 0]])
    one = TimedRun(Request(2, 70, 20, 4), speculative, 2.0, 100, 10, 0.0, 0.01, 0.05)
    baseline = Generation([[0] * 26] * 2, [[25]] * 2)
    plain = TimedRun(Request(2, 70, 20), baseline, 2.0, 50, 25, 1.25, 0.0, 0.04)
    generated.table(plain, [one], None, [None])
    text = capsys.readouterr().out
    cells = "full 50.0 2.00 1.16 - 10.00 50.00 110.00 2.60 0.640 3 2 2 2 1"
    assert row(text, "full") == cells.split()
    assert (
        "batch 2, context 70, 20 new tokens, gamma 4, draft self, greedy; prefill 1.25 s; baseline 25.0"
        in text
    )
    assert "tokens/s, T_T 40.00 ms" in text
    generated.table(plain, [one], "h200-sxm-141gb", [generated.PredictedRun(1234.56, 1.75)])
    text = capsys.readouterr().out
    assert "tokens/s (predicted for h200-sxm-141gb: 1234.6), T_T " in text
    assert row(text, "full")[4] == "1.75"
    none = Generation([[0]] * 2, [[0, 0]] * 2)
    untimed = replace(one, timed_iterations=0, timed_tokens=0, generation=none)
    generated.table(plain, [untimed], None, [None])
    cells = "full - - - - 10.00 50.00 - - -"
    assert row(capsys.readouterr().out, "full")[:10] == cells.split()
