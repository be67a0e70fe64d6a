"""What tests of imported acceptance share: a subject, and a page of metrics."""

from perfmodel.validate.engine.acceptance import AcceptanceSubject


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
