"""What tests of imported acceptance share: a subject, a page of metrics, and what a file is read as."""

import json
from pathlib import Path

from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.speculation import Acceptance
from perfmodel.validate.engine.acceptance import AcceptanceSubject, import_file


def subject(gamma: int, draft: str = "draft", lengths: tuple[int, ...] = ()) -> AcceptanceSubject:
    return AcceptanceSubject("target", draft, "full", (4096,), gamma, lengths=lengths)


def page(drafts: int, tokens: int, accepted: list[int]) -> str:
    lines = [
        f"vllm:spec_decode_num_drafts_total {drafts}",
        f"vllm:spec_decode_num_draft_tokens_total {tokens}",
    ]
    per = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines += [f'{per}{{position="{j}"}} {count}' for j, count in enumerate(accepted)]
    return "\n".join(lines) + "\n"


def acceptance(path: Path, gamma: int, tmp_path: Path, draft: str = "draft") -> Acceptance:
    """Imported by its content alone, written, read back: as `whatif --acceptance` would have it."""
    out = tmp_path / "table.json"
    table = import_file(path, None, subject(gamma, draft))
    out.write_text(json.dumps(table.as_mapping()))
    return Acceptance.from_row(read_acceptance(out)[0])
