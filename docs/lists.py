"""What the code already holds as tables: devices, models, KV methods, calibrations and constants, records,
plans.
"""

import functools
import inspect
import json
from pathlib import Path
from typing import Any

import measured  # beside this file
import msgspec
import rack_tables  # beside this file
from threads import Thread  # beside this file

from perfmodel.cli import calibrations, gpus, kv, models
from perfmodel.cli.catalogue import Catalogue
from perfmodel.drafts import kinds
from perfmodel.specs import load_gpu
from perfmodel.specs.boundary.frozen import Frozen, defaults
from perfmodel.specs.calibrations.calibration import CONSTANTS, Calibration
from perfmodel.specs.huggingface import supported
from perfmodel.specs.published import read_published
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.records import plan, plan_points, schema
from perfmodel.validate.studies.public_answers import TITLES
from perfmodel.validate.studies.tables.cells import right_if_it_pays, right_if_not, wrong_of_sure

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Written by docs/generate.py: change the data or the code, then `make docs`. -->"


def of_macs() -> str:
    """A sentence with the shares of the memory that macOS lets the GPU use, by the size of the memory."""
    working_set = load_gpu("apple-m4-max-128gb").working_set  # the same in the file of every Mac
    assert working_set is not None
    least, *larger = working_set.shares
    below = f"{least.share:.0%} of the memory if its size is below {larger[0].from_gib:g} GiB"
    *steps, last = (f"{each.share:.0%} from {each.from_gib:g} GiB" for each in larger)
    return f"On macOS, the GPU can use {', '.join([below, *steps])}, and {last}.".replace("%", " %")


CATALOGUES = (
    (
        "gpus",
        "Devices",
        "This page lists the bundled devices with the figures of their data sheets. Peaks are for dense "
        "matrices. `-` means that the vendor states no value. A question that needs a missing value is "
        "refused. GB is 10^9 bytes. The sizes of most GDDR boards and of Macs are in GiB (2^30 bytes), so "
        "`rtx-3090-24gb` has 25.77 GB. Engines use the memory that the device reports (`reported_memory`), "
        "which may be a few per cent above or below the data sheet's. `NAME:12gb` is the device NAME with "
        f"12 GB of memory (12 GiB for GDDR boards and Macs). {of_macs()} Link rates "
        "(GB/s) are per direction. Macs, DGX Sparks and machines with a Ryzen AI Max have one GPU each. "
        "LLC is the last-level cache. An answer uses the calibration in the "
        "last column unless `--engine` or `--calibration` names another calibration. `--hardware` also "
        "accepts the names that `nvidia-smi` and `lspci` print, such as `Radeon RX 7900 XTX "
        "24GB`. `--hardware ./mine.yaml` reads your own file.",
        gpus.CATALOGUE,
    ),
    (
        "models",
        "Models",
        "This page lists the bundled models. The number of parameters is computed from the shape. `active` "
        "counts "
        "the parameters that one token uses, without the input embedding. KV bytes are for one token in "
        "bf16, summed over all layers on one device. `weights` is the format of the checkpoint. `--model` "
        "also "
        "accepts the Hugging Face id of a model or of a fine-tuned or quantised version, such as "
        "`Qwen/Qwen2.5-7B-Instruct` or `nvidia/Llama-3.3-70B-Instruct-FP8`. `--model ./config.json` reads a "
        "local file if its `model_type` is in this list:\n\n"
        f"{', '.join(supported())}.",
        models.CATALOGUE,
    ),
    (
        "kv",
        "KV methods",
        "A KV method decides which part of the cache a draft reads: `--draft-kv "
        "METHOD[:BUDGET][,option=value...]`. Counts can end in `k` (1,024) or `m` (1,048,576). The decoder "
        "of `perfmodel validate` runs every method that is not marked `predicted only`.",
        kv.CATALOGUE,
    ),
    (
        "calibrations",
        "Calibrations",
        "A calibration contains the efficiencies and fixed costs of a device with its software, relative to "
        "the ideal roofline. The columns show the share of the memory bandwidth that GEMMs and attention "
        "reach, and the time that an iteration spends outside its passes. A device without a calibration "
        "uses the calibration of another device, and the answer says `transferred`. In the calibration "
        "`ideal`, every efficiency is 1 and there are no fixed costs.",
        calibrations.CATALOGUE,
    ),
)


def _table(verb: str, title: str, text: str, catalogue: Catalogue) -> str:
    heads = [column.heading for column in catalogue.columns]
    left = [number for number, column in enumerate(catalogue.columns) if column.left or not number]
    rows = table(heads, ([f"`{cells[0]}`", *cells[1:]] for cells in catalogue.cells()), left)
    more = f"`perfmodel {verb} show NAME` prints all details with their sources."
    after = {"kv": _methods, "calibrations": _constants}.get(verb, str)()
    return f"{NOTE}\n\n# {title}\n\n{text} {more}\n\n" + "\n".join(rows) + "\n" + after


def _methods() -> str:
    kinds = kv.CATALOGUE.members()
    said = {kind.name: inspect.getdoc(type(kind)).partition("\n\n")[0].replace("\n", " ") for kind in kinds}
    return "\n## What each method does\n\n" + "\n".join(
        f"**{name}**: {what}\n" for name, what in said.items()
    )


def _constants() -> str:
    """Every constant of a calibration, from its declaration."""
    rows = []
    for name, c in CONSTANTS.items():
        optional = "" if name not in defaults(Calibration) else " (optional)"
        rows.append([f"`{name}`", c.unit, c.bounds, c.work, c.term or "-", c.meaning + optional])
    head = ["constant", "unit", "allowed values", "kind of work", "term", "meaning"]
    return (
        "\n## Constants\n\n"
        "In a calibration file, each constant is one key, `{value: ..., stderr: ..., source: ...}`. The "
        "keys are in the same order as in this table. "
        "If a file does not contain an optional constant, the model leaves out its effect. "
        "[The model](model.md#2-from-counts-to-seconds) explains how times follow from the constants. "
        "[Contributing](contributing.md#a-constant) explains how to add a constant.\n\n"
        + "\n".join(table(head, rows, text_columns=range(6)))
        + "\n"
    )


RECORDS = """# Records of measurements

`perfmodel validate measure`, `microbench` and `run` write one JSON file per run,
`results/MACHINE/UTC-COMMIT-PLAN.json`. The measurements in a file never change. `results/withdrawn.yaml`
lists the records that are no longer used, each with the reason. Times are raw samples in seconds. Programs
that read the files compute the statistics: each value of a point is a median. Names contain the units. An
optional field may be missing, and readers ignore unknown fields.

The current version of the record format is {version} (`schema_version`).
"""
SECTIONS: dict[type[Frozen], type[Frozen] | None] = {
    schema.PointRecord: None,
    schema.PointRow: None,
    schema.KernelRecord: schema.PointRecord,
    schema.KernelRow: None,
    schema.RecordedProtocol: None,
    schema.Environment: None,
    schema.Device: None,
    schema.RecordedPlan: None,
    plan_points.GridBlock: None,
    plan.Protocol: None,
    plan.Precisions: None,
    plan.Micro: None,
}
"""Parts of a record -> the part whose fields they have too."""


def _records() -> str:
    """The schema of records and plans, from the models that read them."""
    parts = [NOTE, "", RECORDS.format(version=schema.SCHEMA_VERSION)]
    for model, like in SECTIONS.items():
        described = _schema(model)
        known = _schema(like)["properties"] if like else {}
        also = f" It has the fields of [{like.__name__}](#{like.__name__.lower()}), and:" if like else ""
        rows = [
            [
                f"`{name}`",
                _type(field),
                _default(field, name in described.get("required", ())),
                field.get("description", ""),
            ]
            for name, field in described["properties"].items()
            if field != known.get(name)
        ]
        fields = table(["field", "type", "default", "meaning"], rows, text_columns=range(4))
        parts += [f"## {model.__name__}", "", f"{inspect.getdoc(model)}{also}", "", *fields, ""]
    parts += [
        "## Samples",
        "",
        "Each sample is a list of times in seconds. The column `mode` names the mode of the row that has "
        "this sample; "
        "`kernel` stands for a microbenchmark.",
        "",
    ]
    rows = [
        [f"`{name}`", mode, what] for mode, names in schema.SAMPLES.items() for name, what in names.items()
    ]
    return "\n".join([*parts, *table(["sample", "mode", "timed work"], rows, text_columns=range(3))]) + "\n"


def _schema(model: type[Frozen]) -> dict[str, Any]:
    schema: dict[str, Any] = msgspec.json.schema(model)["$defs"][model.__name__]
    return schema


def _default(field: dict[str, Any], required: bool) -> str:
    default = field.get("default")
    if required or default is None or isinstance(default, dict):
        return "required" if required else ""
    return f"`{json.dumps(default)}`"


def _type(field: dict[str, Any], plural: str = "") -> str:
    """A JSON schema's type in words.

    - plural: "s" for several values of the type.
    """
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        if name in [model.__name__ for model in SECTIONS]:
            return f"[{name}](#{name.lower()})"
        return f"`{name}`"
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    if "const" in field or "enum" in field:
        return " or ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if "items" in field:
        return f"list{plural} of {_type(field['items'], 's')}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"{_type(field['additionalProperties'], 's')}, by name"
    return f"{field['type']}{plural}{_limits(field)}"


def _limits(field: dict[str, Any]) -> str:
    """The limits of a number in words."""
    if "minimum" in field and "maximum" in field:
        return f" from {field['minimum']:g} to {field['maximum']:g}".replace("e+0", "e").replace("e+", "e")
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
    return "".join(f" {sign} {field[key]:g}" for key, sign in signs.items() if key in field)


PAGES = {entry[0]: functools.partial(_table, *entry) for entry in CATALOGUES} | {"records": _records}
"""Page -> what writes all of it."""


def accuracy() -> str:
    """Errors and coverage on sources left out whole, a row for each engine, from `results/accuracy.json`."""
    record = json.loads((ROOT / "results" / "accuracy.json").read_text(encoding="utf-8"))
    steps, ratios = (record["sources"][figure] for figure in ("step", "ratio"))
    rows = []
    for title in (title for title in TITLES.values() if title in steps):
        step = steps[title]
        ratio = ratios[title]
        judged = f"{step['sources']} sources, {step['rows']} steps, {ratio['rows']} ratios"
        held = f"{100 * step['inside']:.0f} % (±{100 * step['width']:.0f} %)"
        macro = [f"{100 * of['macro']:.0f} %" for of in (step, ratio)]
        rows.append((title, judged, *macro, held, _worst_source(step), _worst_source(ratio)))
    parts = record["replays"]["held-out"]["partitions"]
    research = [parts[f"magicdec/{gpu}/speedup"] for gpu in ("h100-sxm-80gb", "a100-sxm-80gb")]
    off = "speedup " + " and ".join(map(_off, research))
    rows.append(
        (
            "MagicDec's stack",
            "H100 and A100, each row predicted by a fit without that row",
            "-",
            off,
            "-",
            "-",
            "-",
        )
    )
    rows.append(("this project's decoder", *_own_gpu(record["replays"]["shipped"]["partitions"])))
    head = [
        "engine",
        "evaluated on",
        "step",
        "iteration over step",
        "steps in the 90 % interval",
        "worst source (step)",
        "worst source (iteration over step)",
    ]
    return "\n".join(table(head, rows, text_columns=range(7))) + "\n"


def _worst_source(errors: dict[str, Any]) -> str:
    """Error and name of the source with the largest mean error."""
    worst = errors["worst"]
    return f"{100 * worst['error']:.0f} % ({worst['source']})"


def trust() -> str:
    """Errors, verdicts and draft lengths on sources left out whole (`results/accuracy.json`), and public
    threads.
    """
    record = json.loads((ROOT / "results" / "accuracy.json").read_text(encoding="utf-8"))["sources"]
    lost = record["best_length"]
    rows = [
        ("time of a baseline step, serving engines", _left_out(record["step"]["all"])),
        ("time of a baseline step, llama.cpp", _left_out(record["step"]["llama.cpp"])),
        ("speedup, serving engines", _left_out(record["speedup"]["all"])),
        ("speedup, llama.cpp", _left_out(record["speedup"]["llama.cpp"])),
        (
            "verdict, serving engines (including servers with known defects)",
            _verdicts(record["sides"]["all"]),
        ),
        ("verdict, llama.cpp", _verdicts(record["sides"]["llama.cpp"])),
        ("throughput lost by using the predicted draft length, serving engines", _lost(lost["engines"])),
        ("throughput lost by using the predicted draft length, llama.cpp", _lost(lost["llamacpp"])),
        (
            "speedup in [public threads](docs/threads.md), predicted before their numbers were read",
            _threads(),
        ),
    ]
    return "\n".join(table(["what was predicted", "result"], rows, text_columns=range(2))) + "\n"


def _verdicts(side: dict[str, int]) -> str:
    """Correct verdicts by what was measured."""
    right = f"right for {right_if_it_pays(side)} speedups above 1, and for {right_if_not(side)} below 1"
    return f"{right}; {wrong_of_sure(side)} certain verdicts are wrong"


def _left_out(errors: dict[str, Any]) -> str:
    measurements = f"{errors['rows']} measurements from {errors['sources']} sources"
    inside = f"{100 * errors['inside']:.0f} % of {measurements} are in the 90 % interval"
    return f"mean error {100 * errors['error']:.0f} %; {inside}"


def _threads() -> str:
    asked = read_published("threads", Thread)
    contained = [thread.contained for thread in asked if thread.contained is not None]
    sides = sum(thread.same_side for thread in asked)
    measured = f"{sides} of {len(asked)} measured speedups are on the predicted side of 1"
    intervals = f"{len(contained)} predictions have a 90 % interval"
    return f"{measured}; {intervals}, which contains {sum(contained)} of the measured speedups"


def _lost(sweeps: dict[str, Any]) -> str:
    lost = f"mean {100 * sweeps['lost']:.1f} %, worst {100 * sweeps['worst']:.0f} %"
    return f"{lost} ({sweeps['sweeps']} servers with several measured lengths)"


def _own_gpu(parts: dict[str, Any]) -> tuple[str, ...]:
    """The last run of `gpu-headline`, predicted by constants of single kernels."""
    name = max(key for key in parts if key.endswith("-gpu-headline/h200-sxm-141gb/speedup"))
    step = parts[name.removesuffix("speedup") + "target_s"]
    speedup = parts[name]
    constants = "constants measured on single kernels (for Quest, on whole passes too)"
    judged = f"[one H200](docs/h200.md), {speedup['rows']} points; {constants}"
    return judged, _off(step), f"speedup {_off(speedup)}", "-", "-", "-"


def _off(errors: dict[str, Any]) -> str:
    return f"{100 * errors['mape']:.1f} %"


def drafts() -> str:
    """The table of draft kinds."""
    rows = [(f"`{word}`", f"`{kind.example}`", kind.source) for word, kind in kinds().items()]
    return "\n".join(table(["kind", "example", "source"], rows, text_columns=range(3))) + "\n"


MADE = {
    "accuracy": accuracy,
    "trust": trust,
    "drafts": drafts,
    "h200_points": measured.h200_points,
    "h200_errors": measured.h200_errors,
    "h200_figures": measured.h200_figures,
    "h200_attention": measured.h200_attention,
    "h200_changes": measured.h200_changes,
    "racks": rack_tables.racks,
    "rack_rows": rack_tables.rack_rows,
    "latent_surface": rack_tables.latent_surface,
    "h200_paper": measured.h200_paper,
    "h200_draft_step": measured.h200_draft_step,
}
"""Name of a part of a page, between ``<!-- made: NAME -->`` and ``<!-- end -->`` -> what writes it."""
