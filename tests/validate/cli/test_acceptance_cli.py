"""Acceptance: observed on the bundled model and as docs/observe.md says, imported, read back by a what-if."""

import json
from pathlib import Path

import pytest

from perfmodel.cli import run
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.speculation import MAX_GAMMA, Acceptance
from perfmodel.validate.decoder import Model, ModelPair, RankShard, Sampling
from perfmodel.validate.decoder.pair import LoadedPair
from perfmodel.validate.harness.acceptance import AcceptanceSetting, measure
from perfmodel.validate.lm import CHECKPOINT
from tests.refusals import refused
from tests.sampled import first_fast
from tests.validate.tiny_model import write_documents, write_folder


class Unloadable(ModelPair):
    """A pair whose weights nobody may read."""

    def models(self, shard: RankShard) -> LoadedPair:
        pytest.fail("loaded")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gamma": MAX_GAMMA + 1}, "--gamma: must be at most"),
        ({"draft_kv": ("topk:8", "topk:08")}, "--draft-kv: must be methods that differ"),
        ({"draft_kv": ("topk:64",)}, "--draft-kv: must be of a budget below the context"),
        ({"contexts": (10**6,)}, "--context: must be at most"),
        ({"texts": [[1] * 9]}, "--prompts: must be documents of 60 tokens or more"),
    ],
)
def test_what_is_refused_is_refused_before_a_model_is_loaded(changes, says) -> None:
    """The words of the command are pinned."""
    setting = {
        "pair": Unloadable("llama-68m"),
        "draft_kv": ("topk:32",),
        "contexts": (64,),
        "gamma": 2,
        "new_tokens": 8,
        "sampling": Sampling(1.0),
        "count": 2,
        "batch": 2,
    }
    refused(says, measure, AcceptanceSetting(**{**setting, **changes}))


def test_observed_acceptance_answers_a_whatif(tmp_path, capsys) -> None:
    """A draft that reads the whole cache in fp32 is the target: everything is accepted. A sparse one loses
    some.
    """
    out = tmp_path / "table.json"
    published = "streamingllm:48,own_prefill=true"
    kinds = ["--draft-kv", "full", "--draft-kv", published, "--draft-kv", "streamingllm:32"]
    sizes = ["--context", "256", "--gamma", "3", "--documents", "3", "--new-tokens", "32", "--threads", "1"]
    assert run(["validate", "acceptance", *kinds, *sizes, "--out", str(out)]) == 0
    rows = {row.draft_kv: Acceptance.from_row(row) for row in read_acceptance(out)}
    assert rows["full"].prefix == pytest.approx((1.0, 1.0, 1.0), abs=0.02), "rounding may refuse one in many"
    assert rows["streamingllm"].tokens_per_iteration(3) < 4.0
    table = json.loads(out.read_text())
    for row in table["rows"]:
        iterations = sum(row["histogram"])
        accepted = sum(j * n for j, n in enumerate(row["histogram"]))
        assert iterations + accepted <= 3 * (32 + 3)
        assert row["standard_error"]["documents"] == 3
    capsys.readouterr()
    question = [
        "--model",
        str(CHECKPOINT),
        "--hardware",
        "h100",
        "--batch",
        "1",
        "--context",
        "256",
        "--gamma",
        "3",
    ]
    draft = ["--draft-kv", "streamingllm:32", "--acceptance", str(out), "--json"]
    assert run(["whatif", *question, *draft]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["acceptance"]["tokens_per_iteration"] == pytest.approx(
        rows["streamingllm"].tokens_per_iteration(3)
    )
    assert f"{published}; " in answer["acceptance"]["source"], "what a row's name and budget leave open"
    assert "held-out" in answer["acceptance"]["source"]
    error = table["rows"][-1]["standard_error"]["tokens_per_iteration"]
    assert f"tokens per iteration +/- {error:.2g} by 3 documents" in answer["acceptance"]["source"]


@pytest.fixture
def folders(tmp_path: Path, target: Model, small: Model) -> tuple[str, str, str]:
    """A target, a smaller draft, and documents of 90, 40, 120 and 90 words, all as people have them."""
    pytest.importorskip("transformers")
    documents = write_documents(tmp_path / "books.jsonl", [90, 40, 120, 95])
    big = write_folder(tmp_path / "big", target, shards=3)
    draft = write_folder(tmp_path / "small", small)
    return str(big), str(draft), str(documents)


@pytest.mark.parametrize("draft", first_fast([("small",), ("self",), ("ngram:2",)]))
def test_a_hugging_face_folder_and_its_texts(tmp_path, folders, draft, capsys) -> None:
    """Any draft; documents that are too short for a context are left out there; the file is there after each
    row.
    """
    big, small, documents = folders
    out = tmp_path / "table.json"
    name = "small" if draft == "small" else draft.partition(":")[0]
    arguments = [
        "--checkpoint",
        big,
        "--prompts",
        documents,
        "--context",
        "32,80",
        "--new-tokens",
        "16",
        "--gamma",
        "2",
    ]
    arguments += [
        "--draft",
        small if draft == "small" else draft,
        "--dtype",
        "fp64",
        "--batch",
        "2",
        "--top-k",
        "20",
    ]
    if draft == "self":
        arguments += ["--draft-kv", "full", "--draft-kv", "streamingllm:16", "--chat", "--prompt", "short"]
    assert run(["validate", "acceptance", *arguments, "--threads", "1", "--out", str(out)]) == 0
    table = json.loads(out.read_text())
    rows = [(row["draft"], row["draft_kv"], row["context_tokens"]) for row in table["rows"]]
    methods = ["full", "streamingllm"] if draft == "self" else ["full"]
    assert rows == [(name, method, context) for context in (32.0, 80.0) for method in methods]
    for row in table["rows"]:
        assert row["target"] == "big"
        assert row["standard_error"]["documents"] == (4 if row["context_tokens"] == 32 else 3)
    count = 5 if draft == "self" else 4
    assert (
        f"temperature 1, top-k 20, {count} documents of books.jsonl, 16 new tokens, gamma 2"
        in table["source"]
    )
    if draft == "self":
        assert table["rows"][0]["histogram"][:2] == [0, 0], (
            "what draws from the target's own distribution stands"
        )
    assert " documents) tokens per iteration, by position " in capsys.readouterr().err
