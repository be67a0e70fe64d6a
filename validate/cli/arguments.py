"""The command-line arguments of the verbs that measure, each declared once. `answers/declaration` declares
the arguments of questions.
"""

from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated

from perfmodel.answers.declaration import POSITIVE, TINY, Argument, Question, question
from perfmodel.answers.readers import whole

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "fp32", "bf16", "fp64", "fp8")
TOP_P = (TINY, 1.0)
SHOWN_FOLDER = "results/ in the checkout, otherwise in the current directory"

PlanName = Annotated[str, Argument("A plan of validate/plans, or a file.", "PLAN", place=True)]
Machine = Annotated[
    str,
    Argument(
        "Label of this machine, such as h200-1, and name of its folder in results/. Do not use a host name.",
        "LABEL",
        group="Run",
    ),
]
ForHardware = Annotated[
    str | None, Argument("Device of the predictions, by name or path.", "NAME|PATH", default="the plan's")
]
WithCalibration = Annotated[
    str | None,
    Argument("Calibration by name or path.", "NAME|PATH", default="the device's own", group="Engine"),
]
Threads = Annotated[
    int | None,
    Argument(
        "Number of CPU threads; 1 is best for a small model.",
        "N",
        default="that of the plan, or torch's default",
        group="Run",
    ),
]
Minutes = Annotated[
    float | None,
    Argument(
        "Time limit: stop before a row that would exceed it, and write the record.",
        "MINUTES",
        default="no limit",
        limits=POSITIVE,
        group="Run",
    ),
]
ResultsFolder = Annotated[
    Path | None,
    Argument("Folder in which all results are stored.", "FOLDER", default=SHOWN_FOLDER, group="Run"),
]
Resume = Annotated[bool, Argument("Continue the latest interrupted run of the plan.", group="Run")]
DryRun = Annotated[bool, Argument("Print the points of the plan without timing them.", group="Run")]
Out = Annotated[Path | None, Argument("File to write.", "FILE", "--output", default="stdout", group="Output")]
Picture = Annotated[
    Path | None, Argument("Output file for a picture (.png, .svg or .pdf).", "FILE", group="Output")
]
Theme = Annotated[
    str,
    Argument(
        "Colours of the picture, for a light or a dark page.", choices=("light", "dark"), group="Output"
    ),
]
Write = Annotated[bool, Argument("Write the result to the calibration's file.", group="Output")]
Sets = Annotated[
    tuple[str, ...] | None,
    Argument(
        "Measurements to list: a published set, one of your records, or a machine; may be repeated.",
        "NAME",
        default="all sets that CI checks",
        flag="--set",
    ),
]
HeldOut = Annotated[bool, Argument("Predict each fitted row with a fit that excludes the row's fold.")]


@question
class DecodingQuestion(Question):
    """Arguments of the verbs that run the real decoder on texts."""

    _: KW_ONLY
    checkpoint: Annotated[
        str | None,
        Argument(
            "Folder with config.json, .safetensors files and a tokenizer.",
            "FOLDER",
            default="the bundled model",
        ),
    ] = None
    draft: Annotated[
        str,
        Argument(
            "Draft: self, ngram[:LONGEST], or the folder or name of a model.",
            "self|ngram|NAME|FOLDER",
            group="Draft",
        ),
    ] = "self"
    draft_kv: Annotated[
        tuple[str, ...] | None,
        Argument("KV method of the draft; may be repeated.", "METHOD[:BUDGET]", default="all", group="Draft"),
    ] = None
    prompt: Annotated[tuple[str, ...] | None, Argument("Text to continue; may be repeated.", "TEXT")] = None
    prompts: Annotated[
        Path | None,
        Argument(
            'File of prompts: JSON lines, each with {"text": ...} or a list of tokens, or a .txt file.',
            "FILE",
        ),
    ] = None
    chat: Annotated[bool, Argument("Apply the chat template to each text, as a user message.")] = False
    top_p: Annotated[
        float,
        Argument(
            "Sample from the smallest set of tokens whose total probability reaches P.", "P", limits=TOP_P
        ),
    ] = 1.0
    top_k: Annotated[
        int, Argument("Sample from the N most likely tokens; 0 means all tokens.", "N", read=whole)
    ] = 0
    tp: Annotated[int, Argument("Number of tensor-parallel processes, which torchrun starts.", "N")] = 1
    graphs: Annotated[bool, Argument("Capture iterations as CUDA graphs and replay them.", group="Run")] = (
        False
    )
    device: Annotated[str, Argument("Device: auto, cpu or cuda.", "DEVICE", choices=DEVICES, group="Run")] = (
        "auto"
    )
    dtype: Annotated[
        str,
        Argument(
            "Format of weights and activations: auto (bf16 on CUDA, else fp32), fp32, bf16, fp64, or fp8 "
            "(weights only).",
            "TYPE",
            choices=DTYPES,
            group="Formats",
        ),
    ] = "auto"
    kv_dtype: Annotated[
        str,
        Argument(
            "Format of the cache: auto (that of the activations) or fp8.",
            "TYPE",
            choices=("auto", "fp8"),
            group="Formats",
        ),
    ] = "auto"
    threads: Threads = None
    seed: Annotated[
        int,
        Argument(
            "Random seed for sampling, for scripted acceptance, and for random or held-out prompts.",
            "N",
            read=whole,
            group="Run",
        ),
    ] = 0
