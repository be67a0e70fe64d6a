"""The committed record of lines that the engines' own parsers took: stale as soon as a line or a version changes."""

import json

from perfmodel.answers.engine_lines import CHECKED
from tests.engine.lines import RECORD, as_record, emitted


def test_the_lines_emitted_now_are_those_that_the_engines_took() -> None:
    record = json.loads(RECORD.read_text())
    assert record["accepted_by"] == CHECKED
    assert json.loads(json.dumps(as_record(CHECKED))) == record, "make test-engine has the engines parse them anew"


def test_each_kind_has_a_line_or_a_note_that_says_why_not() -> None:
    for name, export in emitted().items():
        for line, engine in ((export.vllm_line, "vLLM"), (export.sglang_line, "SGLang")):
            assert line or any(engine in note for note in export.notes), name
        assert not export.vllm_line or "lines of this form were taken by the parsers of vLLM" in " ".join(export.notes)


def test_lines_serve_what_was_priced() -> None:
    lines = emitted()
    assert lines["ngram"].vllm == {
        "method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 2, "prompt_lookup_max": 4,
    }  # fmt: skip
    assert "--speculative-ngram-max-bfs-breadth 1" in str(lines["ngram"].sglang_line)
    assert lines["eagle by batch"].sglang_adaptive == {
        "1": {"candidate_steps": [4]}, "9": {"candidate_steps": [2]}, "33": {"candidate_steps": [0]},
    }  # fmt: skip
    assert "--speculative-adaptive --speculative-adaptive-config adaptive.json" in str(
        lines["eagle by batch"].sglang_line
    )
    window = "--speculative-draft-window-size 508 --speculative-draft-sink-size 4"
    for kind in ("eagle with a window", "mtp with a window"):
        assert window in str(lines[kind].sglang_line)
        assert lines[kind].vllm is None
    assert str(lines["dflash"].sglang_line).endswith("heads/eagle --speculative-num-draft-tokens 4")
    assert "--speculative-num-draft-tokens 4 --speculative-dspark-block-size 3" in str(lines["dspark"].sglang_line)
    for kind in ("dflash", "dspark"):
        assert (lines[kind].vllm or {})["method"] == kind
    assert lines["suffix"].vllm is lines["suffix"].sglang is None
    assert "--speculative-draft-window-size 512 " in str(lines["eagle3 with a window"].sglang_line)
    assert "sink-size" not in str(lines["eagle3 with a window"].sglang_line)
    for kind, config in lines.items():
        by_batch = "num_speculative_tokens_per_batch_size" in (config.vllm or {})
        assert by_batch == ("by batch" in kind), "one constant K turns no dynamic mode on"
    assert "--gpu-memory-utilization 0.9 " in str(lines["eagle"].vllm_line)
    assert "--gpu-memory-utilization" not in str(lines["ngram"].vllm_line), "0.92 is vLLM's own"
    assert "--kv-cache-dtype int8_per_token_head" in str(lines["eagle3 by batch"].vllm_line)
    assert "--kv-cache-dtype fp8_e4m3" in str(lines["eagle3"].sglang_line)
