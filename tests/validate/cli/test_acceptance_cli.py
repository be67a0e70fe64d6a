"""Acceptance: observed on the bundled model, imported from other tools, and read back by a what-if."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfmodel.cli import run
from perfmodel.errors import InputError
from perfmodel.specs.acceptance_file import read_acceptance
from perfmodel.specs.acceptance_rows import find_acceptance
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.validate.lm import CHECKPOINT

if TYPE_CHECKING:
    from perfmodel.validate.decoder.model import Model

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


def imported(path: Path, format: str, *more: str, gamma: int = 3) -> Acceptance:
    out = path.with_name("table.json")
    arguments = [
        "--import",
        str(path),
        "--format",
        format,
        "--target",
        "llama-3.1-8b",
        "--draft-kv",
        "snapkv:512",
        *more,
    ]
    status = run(["validate", "acceptance", *arguments, "--context", "4k", "--gamma", str(gamma), "--out", str(out)])
    assert status == 0
    row = find_acceptance("llama-3.1-8b", "self", "snapkv", 512, 4096, read_acceptance(out))
    return Acceptance.from_row(row)


def test_vllm_counters_are_survival_not_conditional(tmp_path: Path) -> None:
    """100 drafts; 80, 60, 30 accepted at positions 0, 1, 2: a = .8, .75, .5 and Omega = 1 + 1.7."""
    page = tmp_path / "metrics.txt"
    page.write_text(
        "# HELP vllm:spec_decode_num_drafts_total Number of drafts\n"
        'vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 40\n'
        'vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 60\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 80\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 60\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 3e1\n'
    )
    found = imported(page, "vllm")
    assert found.prefix == pytest.approx((0.8, 0.75, 0.5))
    assert found.tokens_per_iteration(3) == pytest.approx(2.7)
    page.write_text(json.dumps({"num_drafts": 100, "num_accepted_tokens_per_pos": [80, 60, 30]}))
    assert imported(page, "vllm").prefix == pytest.approx((0.8, 0.75, 0.5))
    page.write_text(json.dumps({"num_drafts": 100, "num_accepted_tokens_per_pos": [60, 80]}))
    with pytest.raises(InputError, match="must not rise"):
        _import(page, "vllm")


def test_sglang_lengths_count_the_bonus_token(tmp_path: Path) -> None:
    """295.2 tokens in 100 passes: Omega 2.952 at gamma 3 is alpha 0.8."""
    path = tmp_path / "requests.jsonl"
    lines = [{"meta_info": {"completion_tokens": n, "spec_verify_ct": v}} for n, v in ((95.2, 40), (200, 60))]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert imported(path, "sglang").alpha == pytest.approx(0.8, abs=1e-9)
    path.write_text(json.dumps({"accept_length": 2.952}))
    assert imported(path, "sglang").alpha == pytest.approx(0.8, abs=1e-9)
    path.write_text(json.dumps({"accept_length": 4.5}))
    with pytest.raises(InputError, match=r"gamma \+ 1 = 4"):
        _import(path, "sglang")


def page(last: str) -> str:
    """A Prometheus page with the value at the last of three positions."""
    per = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = ["vllm:spec_decode_num_drafts_total 100 1700000000", f'{per}{{m="a}}",position="0"}} 74 -1.5']
    return "\n".join([*lines, f'{per}{{position="1"}} 49', f'{per}{{position="2"}} {last}', ""])


def test_a_time_may_follow_a_counter(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(page("27 1700000000"))
    assert imported(path, "vllm").tokens_per_iteration(3) == pytest.approx(2.5)


@pytest.mark.parametrize("last", ["NaN", "-5", "+Inf", "1e", "1e999", "", "27 soon", "27 1 2", "many"])
def test_a_counter_that_cannot_be_read_is_not_dropped(tmp_path: Path, last: str) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(page(last))
    with pytest.raises(
        InputError, match=r"metrics.txt: spec_decode_num_acc\w+ position 2: must be a finite count"
    ) as caught:
        _import(path, "vllm")
    assert f"given {last!r}" in str(caught.value)


def test_positions_without_number_or_with_gaps_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    for number, says in (('position="7"', "without gaps"), ('other_position="2"', "labelled with its position")):
        path.write_text(page("27").replace('position="2"', number))
        with pytest.raises(InputError, match=says):
            _import(path, "vllm")


def test_a_gamma_that_the_figures_contradict_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(page("27"))
    arguments = [
        "validate",
        "acceptance",
        "--import",
        str(path),
        "--format",
        "vllm",
        "--target",
        "t",
        "--context",
        "4k",
    ]
    assert run([*arguments, "--gamma", "5"]) == 2
    assert f"--gamma: must be 3, the positions in {path}, given 5" in " ".join(capsys.readouterr().err.split())
    assert run(arguments) == 0, "the default is no statement"


def test_a_list_of_requests_may_have_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "requests.json"
    request = json.dumps({"meta_info": {"completion_tokens": 295.2, "spec_verify_ct": 100}})
    path.write_text(f"[\n{request},\n{request}\n]\n")
    assert imported(path, "sglang").alpha == pytest.approx(0.8, abs=1e-9)


DEEP, HUGE = "[" * 200_000, "9" * 400


@pytest.mark.parametrize(
    ("format", "text", "says"),
    [
        (
            "vllm",
            '{"num_drafts": Infinity, "num_accepted_tokens_per_pos": [5, 3, 1]}',
            "must hold spec_decode counters",
        ),
        (
            "vllm",
            f'{{"num_drafts": {HUGE}, "num_accepted_tokens_per_pos": [5, 3, 1]}}',
            "must hold spec_decode counters",
        ),
        ("vllm", '{"num_drafts": true, "num_accepted_tokens_per_pos": [1, 1, 1]}', "must hold spec_decode counters"),
        ("vllm", '{"a":' + DEEP, "nested so deeply"),
        ("sglang", "[1, 2]", "must hold JSON objects"),
        ("sglang", '"x"', "must hold JSON objects"),
        ("sglang", "[5]", "must hold JSON objects"),
        ("sglang", "", "must hold JSON objects"),
        ("sglang", '{"meta_info": 3}', "must hold accept_length"),
        ("sglang", '{"a": 1}\n{"a": ', "line 2: must be valid JSON"),
        ("sglang", DEEP, "nested so deeply"),
        ("sglang", '{"accept_length": true}', "given True"),
        ("sglang", '{"accept_length": NaN}', "given nan"),
        ("sglang", f'{{"accept_length": {HUGE}}}', "given 999"),
        ("sglang", '{"completion_tokens": 10, "spec_verify_ct": 0}', "given None"),
        (
            "sglang",
            f'{{"completion_tokens": {HUGE}, "spec_verify_ct": 1}}',
            "completion_tokens: must be a finite count",
        ),
        (
            "sglang",
            '[{"completion_tokens": 1000, "spec_verify_ct": -100}, {"completion_tokens": 1000, "spec_verify_ct": 900}]',
            "spec_verify_ct: must be a finite count, 0 or more, in each request, given -100",
        ),
    ],
)
def test_figures_that_are_none_are_refused_in_one_line(tmp_path: Path, format: str, text: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        _import(path, format)
    assert "\n" not in str(caught.value)
    assert "x.json" in str(caught.value)


def test_what_the_figures_are_of_must_have_a_name(tmp_path: Path) -> None:
    from perfmodel.validate.engine.acceptance import AcceptanceSubject, import_file

    path = tmp_path / "metrics.txt"
    path.write_text(page("27"))
    for subject, says in (
        (AcceptanceSubject("", "self", "full", 4096, 3), "--target: must be a name, given ''"),
        (AcceptanceSubject("t", " ", "full", 4096, 3), "--draft: must be a name"),
        (AcceptanceSubject("t", "self", "full", 4096, 0), "--gamma: must be from 1 to 4096"),
    ):
        with pytest.raises(InputError, match=says):
            import_file(path, "vllm", subject)


OBSERVE = ["validate", "acceptance", "--context", "64", "--new-tokens", "8", "--documents", "1", "--threads", "1"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--draft-kv", "snapkv:64"], "--draft-kv: must be of a budget below the context, 64, given 'snapkv:64'"),
        (["--draft-kv", "quest:32,page=8", "--draft-kv", "quest:32"], "--draft-kv: must be methods that differ"),
        (["--draft-kv", "h2o:32"], "h2o can be predicted but not run"),
        (["--draft", "ngram", "--draft-kv", "quest:32"], "--draft-kv: must be left out with --draft ngram"),
        (["--prompts", "none.jsonl"], "--prompts: none.jsonl: must be a readable file"),
        (["--prompts", "letters.jsonl"], "letters.jsonl: line 2: must be tokens in 0 .. 255, given 'a'"),
        (["--prompts", "empty.jsonl"], "--prompts: empty.jsonl: must be one document or more"),
        (["--prompts", "short.jsonl"], "--prompts: must be documents of 60 tokens or more for --context 64, given '3 "),
        (["--checkpoint", "."], "--prompts: must be given with --checkpoint"),
        (["--checkpoint", "none"], "--checkpoint: must be a folder with config.json"),
        (["--temperature", "-1"], "--temperature: must be 0, or "),
        (["--seed", "-1"], "--seed: must be a whole number"),
        (["--threads", "-1"], "--threads: must be a positive whole number"),
        (["--device", "tpu"], "--device: must be auto, cpu or"),
        (["--gamma", "4097"], "--gamma: must be at most 4096"),
        (["--gamma", "0"], "--gamma: must be a positive whole number"),
        (["--batch", "0"], "--batch: must be a positive whole number"),
        (["--out", "missing/table.json"], "--out: must be a file that can be written, in a folder that exists"),
        (["--out", "."], "--out: must be a file that can be written"),
        (["--out", "n" * 300], "--out: must be a file that can be written"),
        (["--context", "64,1000000"], "--context: must be at most"),
    ],
)
def test_a_run_that_cannot_end_well_is_refused_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    from perfmodel.validate.harness import acceptance

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(acceptance, "_observe", lambda *_: pytest.fail("decoded"))
    texts = {"letters": '[1]\n[1, "a"]', "short": "[1, 2, 3]\n[4]", "empty": "\n"}
    for name, text in texts.items():
        Path(f"{name}.jsonl").write_text(text)
    before = sorted(tmp_path.iterdir())
    assert run([*OBSERVE, *more]) == 2
    said = capsys.readouterr()
    assert says in " ".join(said.err.split())
    assert not said.out
    assert sorted(tmp_path.iterdir()) == before


def test_held_out_prompts_need_a_seed_from_0() -> None:
    from perfmodel.validate.lm import data

    with pytest.raises(InputError, match="--seed: must be 0 or more, given -1"):
        data.held_out_prompts(1, 10, -1)


@pytest.mark.parametrize(("format", "text"), [("vllm", "{}"), ("sglang", "[]")])
def test_what_is_not_the_format_is_refused(tmp_path: Path, format: str, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        _import(path, format)
    with pytest.raises(InputError, match="--format"):
        _import(path, "tensorrt")


def _import(path: Path, format: str) -> None:
    from perfmodel.validate.engine.acceptance import AcceptanceSubject, import_file

    import_file(path, format, AcceptanceSubject("t", "self", "full", 4096, 3))


def test_observed_acceptance_answers_a_whatif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A draft that reads the whole cache in fp32 is the target: everything is accepted. A sparse one loses some."""
    monkeypatch.setenv("PERFMODEL_COMMIT", "0123456789abcdef")
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
        iterations, accepted = sum(row["histogram"]), sum(j * n for j, n in enumerate(row["histogram"]))
        assert iterations + accepted <= 3 * (32 + 3)
        assert row["standard_error"]["documents"] == 3
    capsys.readouterr()
    question = ["--model", str(CHECKPOINT), "--hardware", "h100", "--batch", "1", "--context", "256", "--gamma", "3"]
    draft = ["--draft-kv", "streamingllm:32", "--acceptance", str(out), "--json"]
    assert run(["whatif", *question, *draft]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["acceptance"]["tokens_per_iteration"] == pytest.approx(rows["streamingllm"].tokens_per_iteration(3))
    assert f"{published}; " in answer["acceptance"]["source"], "what a row's name and budget leave open"
    assert "held-out" in answer["acceptance"]["source"]
    error = table["rows"][-1]["standard_error"]["tokens_per_iteration"]
    assert f"tokens per iteration +/- {error:.2g} by 3 documents" in answer["acceptance"]["source"]


@pytest.fixture
def folders(tmp_path: Path, target: "Model", small: "Model") -> tuple[str, str, str]:
    """A target, a smaller draft, and documents of 90, 40, 120 and 90 words, all as people have them."""
    pytest.importorskip("transformers")
    from tests.validate.tiny_folder import write_documents, write_folder

    documents = write_documents(tmp_path / "books.jsonl", [90, 40, 120, 95])
    return str(write_folder(tmp_path / "big", target)), str(write_folder(tmp_path / "small", small)), str(documents)


@pytest.mark.parametrize("draft", ["self", "ngram:2", "small"])
def test_a_hugging_face_folder_and_its_texts(
    tmp_path: Path, folders: tuple[str, str, str], draft: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any draft; documents that are too short for a context are left out there; the file is there after each row."""
    big, small, documents = folders
    out, name = tmp_path / "table.json", "small" if draft == "small" else draft.partition(":")[0]
    asked = ["--checkpoint", big, "--prompts", documents, "--context", "32,80", "--new-tokens", "16", "--gamma", "2"]
    asked += ["--draft", small if draft == "small" else draft, "--dtype", "fp64", "--batch", "2", "--top-k", "20"]
    if draft == "self":
        asked += ["--draft-kv", "full", "--draft-kv", "streamingllm:16"]
    assert run(["validate", "acceptance", *asked, "--threads", "1", "--out", str(out)]) == 0
    table = json.loads(out.read_text())
    found = [(row["draft"], row["draft_kv"], row["context_tokens"]) for row in table["rows"]]
    methods = ["full", "streamingllm"] if draft == "self" else ["full"]
    assert found == [(name, method, context) for context in (32.0, 80.0) for method in methods]
    for row in table["rows"]:
        assert row["target"] == "big"
        assert row["standard_error"]["documents"] == (4 if row["context_tokens"] == 32 else 3)
    assert "temperature 1, top-k 20, 4 documents of books.jsonl, 16 new tokens, gamma 2" in table["source"]
    if draft == "self":
        assert table["rows"][0]["histogram"][:2] == [0, 0], "what draws from the target's own distribution stands"
    assert " documents) tokens per iteration, by position " in capsys.readouterr().err
    if draft == "small":
        question = ["--model", big, "--draft", small, "--acceptance", str(out), "--context", "50", "--batch", "1"]
        assert run(["whatif", *question, "--hardware", "h100", "--gamma", "2"]) == 0


def test_what_was_observed_outlives_an_interruption(
    tmp_path: Path, folders: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from perfmodel.validate.harness import acceptance

    big, _, documents = folders
    observe, calls, out = acceptance._observe, list[str](), tmp_path / "table.json"

    def second_one_is_interrupted(*arguments: Any) -> Any:
        calls.append(arguments[3])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return observe(*arguments)

    monkeypatch.setattr(acceptance, "_observe", second_one_is_interrupted)
    asked = ["--checkpoint", big, "--prompts", documents, "--draft-kv", "full", "--draft-kv", "quest:16"]
    run(["validate", "acceptance", *asked, "--context", "32", "--new-tokens", "8", "--threads", "1", "--out", str(out)])
    assert calls == ["full", "quest:16"]
    assert [row.draft_kv for row in read_acceptance(out)] == ["full"]
