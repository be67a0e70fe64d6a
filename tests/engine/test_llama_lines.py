"""The committed record of lines that llama.cpp's own parser took."""

import json

from tests.engine.llama_lines import RECORD, as_record, emitted


def test_the_lines_emitted_now_are_those_that_llama_cpp_took() -> None:
    assert json.loads(RECORD.read_text()) == as_record(), "tests/engine/llama_lines.py has them parsed anew"


def test_only_what_llama_cpp_runs_is_in_its_line() -> None:
    lines = emitted()
    plain = [name for name, e in lines.items() if "--spec-type" not in str(e.llamacpp_line)]
    assert plain == ["none", "self"]
    assert any("no fp8 KV cache" in note for note in lines["mtp"].notes)
    assert "-sm tensor" in str(lines["two devices"].llamacpp_line)
    assert not any(e.vllm_line or e.sglang_line for e in lines.values())
