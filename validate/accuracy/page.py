"""``docs/accuracy.md`` from the accuracy record: every figure on the page is one of the record's."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfmodel.specs.calibration import load_calibration
from perfmodel.specs.gpu import load_gpu
from perfmodel.validate.accuracy import compare
from perfmodel.validate.accuracy.systems import SLACK
from perfmodel.validate.fit.fitting import points_of
from perfmodel.validate.fit.recipes import RECIPES

NOTE = "<!-- Written by `perfmodel validate accuracy --write`, with prose from validate/accuracy/page.py. -->"
WIDTH = 118
A100, H100, GPT_FAST = RECIPES
QUANTITIES = ("speedup", "target_s", "draft_s", "verify_s", "overhead_s")
WORDS = {
    "speedup": "speedup",
    "target_s": "T_T",
    "draft_s": "T_D",
    "verify_s": "T_V",
    "overhead_s": "overhead",
    "sd_tpot_s": "time per token",
    "speedup_alpha": "speedup, acceptance modelled too",
}
FOLD_WORDS = {
    "point": "(device, model, batch, context)",
    "batch": "batch",
    "draft": "draft and KV method",
    "model": "target model",
    "context": "context",
    "tp": "device count",
}


def path() -> Path:
    """Where the page is, in a source checkout."""
    return Path(__file__).parents[3] / "docs" / "accuracy.md"


def render(found: dict[str, Any]) -> str:
    """The page."""
    sections = (_top, _reached, _folds, _gamma, _systems, _shapes, _borrowed, _sure, _residuals, _tried, _cut)
    return NOTE + "\n\n" + "\n".join(_filled(section(found)) for section in sections)


def _filled(text: str) -> str:
    """Paragraphs and list items wrapped again after their figures were put in; tables and headings as they are."""
    blocks = []
    for block in re.split(r"\n(?=\n|- |\|)", text.rstrip("\n")):
        bare = block.lstrip("\n")
        if bare and not bare.startswith(("|", "#")):
            inner = "  " if bare.startswith("- ") else ""
            wrapped = textwrap.fill(" ".join(bare.split()), WIDTH, subsequent_indent=inner, break_on_hyphens=False)
            block = block[: len(block) - len(bare)] + wrapped
        blocks.append(block)
    return "\n".join(blocks) + "\n"


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}"


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    align = "| :-- |" + " --: |" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", align, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def _part(found: dict[str, Any], name: str, mode: str = "held-out") -> dict[str, Any]:
    part: dict[str, Any] = found["replays"][mode]["partitions"][name]
    return part


def _top(found: dict[str, Any]) -> str:
    overall, side = found["replays"]["held-out"]["overall"], found["replays"]["held-out"]["side_of_one"]
    bounds = found["bounds"]
    wrong = ", ".join(f"{measured:.2f} ({predicted:.2f})" for measured, predicted in side["wrong"].values())
    return f"""# Accuracy

How far predictions are from published measurements, on rows that the fit has not seen. `perfmodel validate accuracy`
replays everything, compares it with `results/accuracy.json` and is part of the tests; `--write` renews that file,
this
page, `results/golden.csv` and `results/history.csv`.

Over all {overall["rows"]} figures of the stacks that a calibration was fitted to (T_T, T_D, T_V, speedup), each
predicted by a
fit without its fold, the mean error is **{_percent(overall["mape"], 2)} %** (bias {_signed(overall["bias"])} %,
worst {_signed(overall["worst"])} %,
row {overall["worst_row"]}). Which side of 1.0 the speedup is on is right in {side["right"]} of {side["rows"]} rows;
the others are measured (predicted) at {wrong}.
{bounds["checked"]} measured times
were held against their physical lower bound (working sets above the last-level cache):
{len(bounds["violations"])} are below it, the closest
is at {_percent(bounds["closest"])} % of its time.

The tokens gained per iteration are the measured ones throughout, so that this tests time; where a published
acceptance row
exists, the last table shows the speedup with acceptance modelled too.
"""


def _reached(found: dict[str, Any]) -> str:
    rows = []
    for name, device in ((H100, "H100"), (A100, "A100")):
        gpu = RECIPES[name].gpu
        for q in QUANTITIES:
            part = _part(found, f"magicdec/{gpu}/{q}")
            shipped = _part(found, f"magicdec/{gpu}/{q}", "shipped")
            elsewhere = found["elsewhere"][name]
            rows.append(
                (
                    f"{device} {WORDS[q]}",
                    str(part["rows"]),
                    _percent(part["mape"], 2),
                    _signed(part["bias"]),
                    f"{_signed(part['worst'])} ({part['worst_row']})",
                    _percent(shipped["mape"], 2),
                    _percent(elsewhere["literature"][q]["mape"]),
                    _percent(elsewhere["ideal"][q]["mape"]) if q in elsewhere["ideal"] else "-",
                )
            )
    part = _part(found, f"gptfast_decode/{RECIPES[GPT_FAST].gpu}/target_s")
    shipped = _part(found, f"gptfast_decode/{RECIPES[GPT_FAST].gpu}/target_s", "shipped")
    rows.append(
        (
            "gpt-fast step, TP 1-8",
            str(part["rows"]),
            _percent(part["mape"], 2),
            _signed(part["bias"]),
            f"{_signed(part['worst'])} ({part['worst_row']})",
            _percent(shipped["mape"], 2),
            "-",
            "-",
        )
    )
    head = (
        "quantity",
        "rows",
        "mean error %",
        "bias %",
        "worst %",
        "in sample %",
        "literature constants %",
        "ideal roofline %",
    )
    return f"""## Rows left out of the fit

Folds by (device, model, batch, context): no plain decoding time is on both sides. T_D is one draft step. `in
sample` is the
shipped calibration on the rows it was fitted to.

{_table(head, rows)}"""


def _folds(found: dict[str, Any]) -> str:
    rows = []
    for name in RECIPES:
        for by, errors in found["calibrations"][name]["left_out_by"].items():
            cells = tuple(
                f"{_percent(errors[q]['mape'])} / {_signed(errors[q]['worst'])}" if q in errors else "-"
                for q in QUANTITIES[:4]
            )
            rows.append((f"{name}, by {FOLD_WORDS[by]}", *cells))
    return f"""## What else was left out

Mean error / worst, %, when everything of one kind is predicted from the others: no row of that batch, draft or
model is in
the fit. This is the better guide to a model or batch that nobody has measured.

{_table(("calibration, left out by", *(WORDS[q] for q in QUANTITIES[:4])), rows)}"""


def _gamma(found: dict[str, Any]) -> str:
    g = found["gamma_optimal"]["held-out"]
    choices = ", ".join(f"{predicted} ({measured})" for measured, predicted in g["choices"].values())
    constant = ", ".join(f"{_percent(v)} % for {k}" for k, v in g["constant_regret_mean"].items())
    return f"""## The best draft length

{g["rows"]} rows give the end-to-end speedup at the draft length that was measured to be best (8 x A100). There the
predicted
speedup is off by {_percent(g["speedup_mape"])} % on average (worst {_signed(g["speedup_worst"])} %). The predicted
best length is within one of the measured one in
{g["within_one"]} of {g["rows"]}: predicted (measured) {choices}. That is a weak test, which always drafting 3 would
pass
too; what counts is the regret, the predicted best speedup over the predicted one at the measured length:
**{_percent(g["regret_mean"])} %** on
average, {_percent(g["regret_worst"])} % at worst. Always drafting the same number would lose, against the predicted
best: {constant}.
"""


def _systems(found: dict[str, Any]) -> str:
    s = found["systems"]
    overall = s["overall"]
    groups = [
        (
            study,
            str(of["rows"]),
            str(of["left_open"]),
            _percent(of["mape"]),
            _signed(of["bias"]),
            f"{_signed(of['worst'])} ({of['worst_row']})",
            _percent(of["by_calibration_mape"]),
        )
        for study, of in s["studies"].items()
    ]
    head = ("study", "rows", "left open", "mean error %", "bias %", "worst %", "by the device's calibration %")
    rows = [
        (
            name,
            row["study"],
            row["target"],
            row["task"],
            str(row["batch"]),
            row["drafted"],
            f"{row['tokens_per_iteration']:.2f}",
            f"{row['predicted']:.2f}",
            f"{row['measured']:.2f}",
            _signed(row["error"]),
            f"{row['by_calibration']:.2f}",
        )
        for name, row in s["rows"].items()
    ]
    each = (
        "row",
        "study",
        "target",
        "task",
        "batch",
        "drafted",
        "tokens",
        "predicted",
        "measured",
        "error %",
        "calib.",
    )
    table = _table(each, rows).replace("| :-- | --: | --: | --: |", "| :-- | :-- | :-- | :-- |", 1)
    cnn, cnn_3 = (
        next(r["measured"] for r in s["rows"].values() if (r["study"], r["task"], r["batch"]) == (name, "CNN/DM", 1))
        for name in ("SpecDecode-Bench, EAGLE", "SpecDecode-Bench, EAGLE-3")
    )
    return f"""## Other speculative systems

MagicDec's rows are above. Of the other papers' rows, those state enough to be predicted with nothing free that print
batch, device, tree or draft length and an accepted length of the same study, and where whatever else they leave open
moves the predicted speedup by {_percent(SLACK, 0)} % at most. The stack is stated too: by the plain and draft step
times that the study prints (Sequoia; the engine adds what a verification of the tree takes beyond a plain step), or
by a linear law of step times that was published for it (vLLM: `results/published/step_laws.csv`, which its authors
fitted to forward times of the InstructCoder runs, not to speedups). "Left open" counts rows that leave too much
open: SpecDecode-Bench names a data set for the context, which matters from batch 64 on, and an n-gram draft proposes
nothing where it finds no match, how often is not said.

Over the {overall["rows"]} rows that state enough the mean error is **{_percent(overall["mape"])} %** (bias
{_signed(overall["bias"])} %, worst {_signed(overall["worst"])} %, row {overall["worst_row"]}); wanted was 10. Nothing
was tuned to any of them. The last column has the device's default calibration alone, which knows nothing of the
study's stack: {_percent(overall["by_calibration_mape"])} % over all rows.

{_table(head, groups)}
The worst rows are CNN/DailyMail under EAGLE: the traces give one accepted length and do not say whether it is
EAGLE's or EAGLE-3's, whose measured speedups differ by {_percent(cnn_3 / cnn - 1, 0)} % there. Sequoia's 13B plain
step is not printed; it is speedup times time per token, the same within 1 % over its six rows. With its own steps
given, what is tested of a tree is the verification and the sum, no more. "Tokens" are gained per iteration.

{table}
What states too little even for a shape: Leviathan et al. and Chen et al. (models not published, or no acceptance;
the bigram row is the formula's own value), Sequoia's Vicuna-33B (neither step is printed), MT-Bench (no prompt
length) and tree sweeps (no accepted length), TriForce's batches (no acceptance), MoESD's Qwen2-57B (no batch; the
model is not bundled).
"""


def _shapes(found: dict[str, Any]) -> str:
    marks = {True: "same", False: "differs", None: "-"}
    rows = [
        (shape["name"], shape["unstated"], shape["measured"], shape["predicted"], marks[shape["alike"]])
        for shape in found["shapes"]
    ]
    head = ("shape", "not stated", "measured", "predicted", "order")
    table = _table(head, rows).replace("| :-- | --: | --: | --: | --: |", "| :-- | :-- | :-- | :-- | :-- |", 1)
    return f"""## Shapes

Rows that state too little to be predicted, compared by order and ratio only. Ranges are over what is not stated.
None of this is a prediction: that some numbers are near is no test of them. MoESD's round costs are above the
model's because its stack spends host time in every round.

{table}"""


def _borrowed(found: dict[str, Any]) -> str:
    rows = [
        (
            row["calibration"] + (" (the default)" if row["chosen"] else ""),
            *(_signed(row[name]) for name in ("target", "draft", "ratio", "speedup")),
            _percent(row["with_clocks"]),
            f"{row['inside']} of {row['rows']}",
        )
        for row in found["borrowed"]
    ]
    head = ("A100 PCIe borrows", "T_T %", "T_D %", "T_D/T_T %", "speedup %", "with the study's steps %", "inside")
    before = next(row for row in found["borrowed"] if row["calibration"] == A100)
    small = load_calibration(A100).small_kernel_s.value * 1e6
    return f"""## Which calibration a board borrows

The A100 PCIe has no calibration of its own; Sequoia's rows were measured on it. Mean signed errors of the
calibrations it could borrow, then the mean error of the speedup where the study's plain and draft step are given,
and how many rows' stated interval holds the measured speedup.

{_table(head, rows)}
No calibration knows that stack, whose plain step takes more than twice what gpt-fast's does on such a chip. The
literature constants are the default: they were measured on this chip's kernels, come nearest to the speedup, and
their interval covers what is not known. MagicDec's were fitted to eight boards at once; the {small:.0f} us that they
give to every small kernel belong to that run and make a small draft on one board {1 + before["draft"]:.1f} times as
slow as measured. Only T_T is nearer with them, because those {small:.0f} us happen to stand for a slower stack.
"""


def _sure(found: dict[str, Any]) -> str:
    rows = [
        (f"{name}, by {FOLD_WORDS[by]}", str(c["inside"]), str(c["rows"]), _percent(c["inside"] / c["rows"], 0))
        for name, folds in found["coverage"].items()
        for by, c in folds.items()
    ]
    a100, h100 = (found["elsewhere"][name]["transferred_to"] for name in (A100, H100))
    to_h100 = a100[RECIPES[H100].gpu]["speedup"]
    to_a100 = h100[RECIPES[A100].gpu]["speedup"]
    crossed = found["elsewhere"]["literature of the other device"]["speedup"]
    return f"""## How sure

`speedup_interval` is meant to hold the measured speedup in 90 % of cases. Its width has two sources: the covariance
of the
fitted constants, and the error seen on rows left out (the largest of the kinds above). Checked on rows left out,
each with
the covariance of the fit that has not seen it and the scatter of the other folds:

{_table(("calibration, left out by", "inside", "rows", "%"), rows)}
A calibration used for another device was seen to be off by {_percent(to_h100["mape"])} % on average (A100's on
H100) and {_percent(to_a100["mape"])} % (H100's on A100);
literature constants of the other device by {_percent(crossed["mape"])} %. So devices without kernel measurements of
their own borrow a
fitted calibration, and a borrowed one widens the interval to what was observed. Only two devices have rows: this is a
sample of two.
"""


def _residuals(found: dict[str, Any]) -> str:
    slots = int(RECIPES[A100].pinned["attention_blocks_per_multiprocessor"][0] * _multiprocessors())
    whole, without = (found["left_out_of_the_model"][A100][k] for k in ("as shipped", "no attention waves"))
    upkeep = found["left_out_of_the_model"][A100]["sparse_cache_sequence_s not fitted"]
    plan = found["left_out_of_the_model"][A100]["full_cache_pass_s not fitted"]
    values = found["calibrations"][A100]["fitted"]
    overhead = found["calibrations"][H100]["fitted"]["iteration_fixed_s"]
    on_h100 = found["left_out_of_the_model"][H100]["sparse_cache_sequence_s fitted"]["fitted"]
    on_h100 = on_h100["sparse_cache_sequence_s"] * 1e6
    speedup = _part(found, f"magicdec/{RECIPES[A100].gpu}/speedup")
    part = _part(found, f"magicdec/{RECIPES[A100].gpu}/draft_s")
    t_t = _part(found, f"magicdec/{RECIPES[A100].gpu}/target_s")
    unpack = found["left_out_of_the_model"][GPT_FAST]["weight_unpack_s not fitted"]["target_s"]
    gpt = found["left_out_of_the_model"][GPT_FAST]["as shipped"]["target_s"]
    fast = _part(found, f"gptfast_decode/{RECIPES[GPT_FAST].gpu}/target_s")
    return f"""## What the residuals show

- **The step between 48 and 64 sequences on A100** (LLaMA-2-7B, four KV heads a device) is the attention kernel's
  last wave.
  FlashInfer cuts sequences up until two blocks per multiprocessor are busy ({slots} on A100) and stops cutting from
  there on:
  {4 * 48} pieces of work are balanced, {4 * 64} leave a second wave of {4 * 64 - slots} on {slots // 2}
  multiprocessors. Counting that wave, with no constant
  fitted, brings T_T from {_percent(without["target_s"]["mape"])} to {_percent(whole["target_s"]["mape"])} % and T_V
  from {_percent(without["verify_s"]["mape"])} to {_percent(whole["verify_s"]["mape"])} %. Llama-3.1-8B has one KV
  head a device and
  meets the same step between 128 and 256 sequences, in the same place as measured.
- **Draft steps on A100 cost {values["sparse_cache_sequence_s"] * 1e6:.2f} us per sequence and layer** that neither
  bytes nor FLOPs explain, plain and verification
  passes {values["full_cache_pass_s"] * 1e3:.2f} ms that drafts do not have; without the first T_D is off by
  {_percent(upkeep["draft_s"]["mape"])} instead of {_percent(whole["draft_s"]["mape"])} %, without the
  second T_V by {_percent(plan["verify_s"]["mape"])} instead of {_percent(whole["verify_s"]["mape"])} %. The names
  given to them (upkeep of a small cache, planning of a large page table) are an
  interpretation. On H100, newer code, the first is fitted as
  {on_h100:.3f} us and left out. **The B = 256 draft rows** need the per-sequence
  cost.
- T_D on A100 rises with the context at a fixed pair, batch and KV budget, by up to
  {_percent(_rise_with_context(), 0)} %, which no term of the model does: the worst draft
  row ({part["worst_row"]}, {_signed(part["worst"])} %) is of that kind.
- The worst speedup on A100 ({speedup["worst_row"]}, {_signed(speedup["worst"])} %) is one plain decoding time that
  lies above the line through its
  neighbours in context (T_T {_signed(t_t["worst"])} % in row {t_t["worst_row"]}), so the printed speedup of that
  row is flattered.
- **The overhead of an iteration** is {values["iteration_fixed_s"] * 1e3:.2f} ms plus
  {values["iteration_sequence_s"] * 1e6:.1f} us a sequence on A100 and {overhead * 1e3:.2f} ms on H100, where more
  draft steps
  do not raise it. It is a small difference of printed figures: single rows are off by a quarter.
- gpt-fast: weight-only formats pay for unpacking their weights; without that term the error is
  {_percent(unpack["mape"])} instead of {_percent(gpt["mape"])} %. The
  worst row ({fast["worst_row"]}, {_signed(fast["worst"])} %) is the one 405B row; the README's 70B row on two
  devices is as odd.
"""


def _multiprocessors() -> int:
    """Of the A100."""
    count = load_gpu(RECIPES[A100].gpu).multiprocessors
    return int(count.value) if count else 0


def _rise_with_context() -> float:
    """Largest measured draft step over the smallest of the same pair, batch and budget on A100, less 1."""
    steps: dict[tuple[object, ...], list[float]] = {}
    for p in points_of(RECIPES[A100]).points:
        steps.setdefault((p.target, p.draft, p.draft_kv, p.batch), []).append(p.draft_s or 0.0)
    return max(max(seen) / min(seen) for seen in steps.values()) - 1.0


def _tried(found: dict[str, Any]) -> str:
    rows = []
    for name in RECIPES:
        for words, errors in found["left_out_of_the_model"][name].items():
            rows.append(
                (f"{name}: {words}", *(_percent(errors[q]["mape"]) if q in errors else "-" for q in QUANTITIES))
            )
    return f"""## What was tried

Mean error in sample, %, after a refit with one thing changed. A constant that is not fitted stays at its literature
value (0
where there is none).

{_table(("change", *(WORDS[q] for q in QUANTITIES)), rows)}
Tried and dropped: NCCL's all-reduce curve in place of the custom kernel's (a little better on A100, worse on H100's
drafts);
separate drafts on fewer devices than the target (half of them fits as well, one or a quarter does not); a cost per
token of
every pass; a draft cost per vocabulary entry (sampling), which the per-sequence cost above replaced; a step in the
KV re-read
factor where the query tokens of a KV head outgrow the attention kernel's smallest tile (too few rows show it).
"""


def _cut(found: dict[str, Any]) -> str:
    rows = [
        (
            name.rsplit("/", 1)[0],
            WORDS[name.rsplit("/", 1)[1]],
            str(part["rows"]),
            _percent(part["mape"], 2),
            _signed(part["bias"]),
            f"{_signed(part['worst'])} ({part['worst_row']})",
        )
        for name, part in found["replays"]["held-out"]["partitions"].items()
    ]
    head = ("partition", "quantity", "rows", "mean error %", "bias %", "worst %")
    lines = _table(head, rows).replace("| :-- | --: |", "| :-- | :-- |", 1)
    return f"""## By partition

Rows left out, as above. `speculation_other` (Sequoia's runs on an A100 PCIe) comes from a stack that no calibration
was fitted
to, on a borrowed calibration: it shows what a stack is worth. Bands are cut at
{", ".join(str(end) for end, _ in compare.BANDS[:-1])} cached tokens.

{lines}"""
