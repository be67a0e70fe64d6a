"""The committed record of lines that the engines' own parsers took: stale as soon as a line or a version
changes.
"""

import json

from perfmodel.answers.advice.engine_lines import CHECKED
from tests.engine.lines import RECORD, as_record, emitted


def test_the_lines_emitted_now_are_those_that_the_engines_took() -> None:
    record = json.loads(RECORD.read_text())
    assert record["accepted_by"] == CHECKED
    assert json.loads(json.dumps(as_record(CHECKED))) == record, (
        "make test-engine has the engines parse them anew"
    )


def test_each_kind_has_a_line_or_a_note_that_says_why_not() -> None:
    for name, export in emitted().items():
        for line, engine in ((export.vllm_line, "vLLM"), (export.sglang_line, "SGLang")):
            assert line or any(engine in note for note in export.notes), name
        assert not export.vllm_line or "lines of this form parse in vLLM" in str(export.notes)
