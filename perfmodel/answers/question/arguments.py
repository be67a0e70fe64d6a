"""The arguments that several questions share, each declared once (see `answers.declaration`).
`validate/cli/arguments.py` declares the arguments of commands that measure.
"""

from collections.abc import Sequence
from typing import Annotated

from perfmodel.answers.declaration import SHARE, TINY, Argument
from perfmodel.answers.readers import (
    Length,
    MaybeReal,
    MaybeWhole,
    Parsed,
    Real,
    Whole,
    counts,
    gamma,
    gammas,
    methods,
    names,
    numbers,
    rate,
    whole,
)
from perfmodel.parse import parse_span
from perfmodel.speculation import MAX_BATCH, MAX_GAMMA

COUNTS = "COUNTS"
TOKENS = "TOKENS"
ACCEPTANCES = ("alpha", "rate", "tokens_per_iteration", "acceptance")
"""Arguments that state an acceptance. A question may have at most one of them."""
TASKS = ("chat", "code", "math", "qa", "summary", "translation", "agent", "mixed")
"""Kinds of text in ``results/published/acceptance.csv``."""
SELF_DRAFT_KV = "streamingllm:512"
"""The default KV method of a self-draft. A self-draft that reads the whole cache never pays off. Most
acceptances of self-drafts in ``results/published`` have this method and budget.
"""
MOST_SEATS = 4096
"""Largest number of requests that a server may run at the same time (`max_num_seqs`)."""


Model = Annotated[
    str,
    Argument(
        "Target model: a name from `perfmodel models list`, or a file (config.json, .gguf).",
        "NAME|PATH",
        "-m",
        many=names,
        listed="models",
    ),
]
Hardware = Annotated[
    str,
    Argument(
        "Device: a name from `perfmodel gpus list` (NAME:pcie5 has PCIe 5.0 links, NAME:96gb has 96"
        " GB), or a YAML file.",
        "NAME|PATH",
        "--gpu --device",
        many=names,
        listed="gpus",
    ),
]
Batch = Annotated[
    Whole,
    Argument(
        "Batch size: number of sequences decoded together, summed over all ranks and nodes.",
        COUNTS,
        "--batch-size -b",
        many=counts,
    ),
]
Context = Annotated[
    Whole,
    Argument(
        "Number of cached tokens per sequence; 32k is 32768.",
        TOKENS,
        "--context-length -c",
        many=counts,
    ),
]
Gamma = Annotated[
    Length,
    Argument(
        "Number of drafted tokens per iteration; auto finds the best number, which can be 0.",
        "N|auto",
        "-g --num-speculative-tokens --speculative-num-steps",
        gamma,
        gammas,
        default="auto",
    ),
]
GivenGamma = Annotated[
    Whole,
    Argument(
        "Number of drafted tokens per iteration, at least 1.",
        "N",
        "-g --num-speculative-tokens --speculative-num-steps",
        many=counts,
        limits=(1, MAX_GAMMA),
    ),
]
TP = Annotated[
    Whole,
    Argument(
        "Number of devices of a server (with --pp: of a pipeline stage), with all groups of --dp.",
        "N",
        "--tensor-parallel-size --tp-size",
        many=counts,
    ),
]
EP = Annotated[
    Whole,
    Argument(
        "Expert-parallel degree: number of groups among which the experts are divided, a divisor of --tp.",
        "N",
        "--expert-parallel-size --ep-size",
        many=counts,
    ),
]
DP = Annotated[
    Whole,
    Argument(
        "Number of attention groups of a server, each with its own sequences: TP 4 DP 2 is --tp 8 --dp 2.",
        "N",
        "--data-parallel-size --dp-size --attn-dp-size",
        many=counts,
    ),
]
PrefixLen = Annotated[
    MaybeWhole,
    Argument(
        "Number of leading prompt tokens that requests share and that a prefix cache can hold.",
        TOKENS,
        default="no prefix cache",
        group="Prefix cache",
    ),
]
PrefixHits = Annotated[
    Real,
    Argument(
        "Share of the requests that begin with the shared tokens.",
        "SHARE",
        limits=SHARE,
        group="Prefix cache",
        needs=("prefix_len",),
        why="the tokens that requests share",
    ),
]
WHO_DRAFTS = "Draft: the target itself (self), a kind such as eagle3, or a model."
Draft = Annotated[
    str, Argument(WHO_DRAFTS, "self|KIND|NAME|PATH", "--draft-model --speculative-algorithm", group="Draft")
]
DraftTP = Annotated[
    MaybeWhole,
    Argument(
        "Tensor-parallel degree of the draft.",
        "N",
        default="the value of --tp, or the largest smaller one that the draft allows",
        group="Draft",
    ),
]
DraftKV = Annotated[
    str | None,
    Argument(
        "KV method and budget of the draft: a name from `perfmodel kv list`.",
        "METHOD[:BUDGET]",
        many=methods,
        listed="kv",
        default=f"{SELF_DRAFT_KV} for --draft self, else full",
        group="Draft",
    ),
]
Alpha = Annotated[
    MaybeReal,
    Argument(
        "Probability that a drafted token is accepted if all earlier tokens of the draft were accepted.",
        "RATE",
        many=numbers,
        limits=SHARE,
        group="Acceptance",
        without=ACCEPTANCES,
    ),
]
ChainRate = Annotated[
    Parsed[str | None, str | float | None],
    Argument(
        "Acceptance by position (0.75/0.65/0.5), or n-gram hit rate x accepted tokens (0.4x3), instead of "
        "--alpha.",
        "RATE",
        read=rate,
        group="Acceptance",
        without=(*ACCEPTANCES, "task"),
    ),
]
TokensPerIteration = Annotated[
    MaybeReal,
    Argument(
        "Mean number of output tokens per iteration at the given --gamma, instead of --alpha.",
        "N",
        group="Acceptance",
        without=ACCEPTANCES,
    ),
]
AcceptanceFile = Annotated[
    str | None, Argument("File with measured acceptance, instead of --alpha.", "FILE", group="Acceptance")
]
Task = Annotated[
    str | None,
    Argument(
        "Kind of text, if the acceptance comes from published results.",
        "NAME",
        choices=TASKS,
        default="chat; the interval then covers all tasks",
        group="Acceptance",
        without=("alpha", "tokens_per_iteration", "acceptance"),
        why="which states the acceptance",
    ),
]
Weights = Annotated[
    str | None,
    Argument(
        "Format of the weights: bf16, fp8, nvfp4, int4-g128, ...",
        "FORMAT",
        "--dtype --quantization",
        default="the checkpoint's",
        group="Formats",
    ),
]
KVType = Annotated[
    str | None,
    Argument(
        "Format of the KV cache: bf16, fp8, int8, ...",
        "FORMAT",
        "--kv-cache-dtype",
        default="the checkpoint's",
        group="Formats",
    ),
]
DraftPath = Annotated[
    str | None,
    Argument(
        "Path or id of the draft or head, for the server's command line.",
        "PATH",
        "--speculative-draft-model-path",
        default="the id of --draft",
        group="Draft",
    ),
]
ModelPath = Annotated[
    str | None,
    Argument(
        "Path or id of the model, for the server's command line.",
        "PATH|ID",
        default="the Hugging Face id of --model",
    ),
]
PowerLimit = Annotated[
    MaybeReal,
    Argument(
        "Power limit of each device; available only for devices whose power was measured (docs/llama.md).",
        "WATTS",
        default="the limit at which the device was measured",
        group="Engine",
        without=("layer_split", "cpu_moe", "gpu_layers"),
        why="whose power was not measured",
    ),
]
Price = Annotated[
    MaybeReal, Argument("Price per device-hour.", "DOLLARS", limits=(TINY, 100_000), default="none")
]
BatchRange = Annotated[
    Parsed[tuple[float, float], str | Sequence[float]],
    Argument(
        "Range of batch sizes that is used to find the inflection context.",
        "LOW..HIGH",
        read=parse_span,
        default="32..256",
        limits=(1, MAX_BATCH),
    ),
]
MaxGamma = Annotated[
    Whole,
    Argument(
        "Largest draft length in the search.",
        "N",
        read=whole,
        limits=(0, MAX_GAMMA),
        group="Draft",
    ),
]
