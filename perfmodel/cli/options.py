"""The flags of a question, each declared once; `asks` gives them to a command."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer

from perfmodel.answers.inflection import DEFAULT_BATCH_RANGE
from perfmodel.answers.query import Query
from perfmodel.answers.sweep import AXES, Grid
from perfmodel.cli.counts import (
    parse_count,
    parse_counts,
    parse_gammas,
    parse_methods,
    parse_names,
    parse_numbers,
    parse_span,
)
from perfmodel.errors import InputError, unknown_name
from perfmodel.speculation.capacity import DEFAULT_MEMORY_FRACTION, Memory
from perfmodel.speculation.scenario import Accounting, Rollback

COUNTS = "COUNTS"


def _option(names: str, metavar: str, text: str) -> Any:
    return typer.Option(*names.split(), metavar=metavar, help=text)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What the user typed. `grid` turns it into numbers and refuses what is none."""

    model: Annotated[
        str,
        _option("--model -m", "NAME|PATH", "Target model: a name of `perfmodel models list`, or a file (config.json)."),
    ]
    hardware: Annotated[
        str,
        _option("--hardware --gpu --device", "NAME|PATH", "Device: a name of `perfmodel gpus list`, or a YAML file."),
    ]
    batch: Annotated[str, _option("--batch --batch-size -b", COUNTS, "Sequences decoded together.")]
    context: Annotated[
        str, _option("--context --context-length -c", COUNTS, "Cached tokens per sequence; 32k is 32768.")
    ]
    gamma: Annotated[
        str, _option("--gamma -g", "N|auto", "Drafted tokens per iteration; auto is the best from 0 on.")
    ] = "auto"
    tp: Annotated[str, _option("--tp --tensor-parallel", "N", "Devices of the tensor-parallel group.")] = "1"
    draft: Annotated[
        str,
        _option("--draft --draft-model", "self|KIND|NAME|PATH", "Who drafts: the target itself, a kind, or a model."),
    ] = "self"
    draft_tp: Annotated[int | None, _option("--draft-tp", "N", "Devices of the draft (default: as --tp).")] = None
    draft_kv: Annotated[
        str,
        _option("--draft-kv", "METHOD[:BUDGET]", "What the draft reads of the cache: a name of `perfmodel kv list`."),
    ] = "full"
    alpha: Annotated[
        str | None,
        _option("--alpha --acceptance-rate", "RATE", "P(a drafted token is accepted, given all before it are)."),
    ] = None
    tokens_per_iteration: Annotated[
        float | None,
        _option("--tokens-per-iteration", "N", "Tokens gained per iteration at the given --gamma, instead of --alpha."),
    ] = None
    acceptance: Annotated[
        str | None, _option("--acceptance", "FILE", "Measured acceptance rows, instead of --alpha.")
    ] = None
    weights: Annotated[
        str | None,
        _option("--weights --dtype", "FORMAT", "bf16, fp8, nvfp4, int4-g128, ... (default: the checkpoint's)."),
    ] = None
    draft_weights: Annotated[
        str | None, _option("--draft-weights", "FORMAT", "The draft's (default: as --weights, else its checkpoint's).")
    ] = None
    kv_dtype: Annotated[
        str | None,
        _option("--kv-dtype --kv-cache-dtype", "FORMAT", "KV cache: bf16, fp8, int8, ... (default: the checkpoint's)."),
    ] = None
    draft_kv_dtype: Annotated[
        str | None, _option("--draft-kv-dtype", "FORMAT", "The draft's KV-cache format (default: as --kv-dtype).")
    ] = None
    kv_reread: Annotated[
        float | None,
        _option("--kv-reread", "R", "How often verification reads the cache, 1 to gamma + 1 (default: calibrated)."),
    ] = None
    calibration: Annotated[
        str | None,
        _option(
            "--calibration", "NAME|PATH|ideal", "Constants (default: the device's; `perfmodel calibrations list`)."
        ),
    ] = None
    accounting: Annotated[
        str,
        _option(
            "--accounting", "|".join(get_args(Accounting)), "Do sequences advance each on its own, or all by the least?"
        ),
    ] = "ragged"
    new_tokens: Annotated[
        str, _option("--new-tokens", "COUNT", "Tokens each sequence needs, for --accounting static.")
    ] = str(Query.new_tokens)
    topk_reuse: Annotated[
        float,
        _option("--topk-reuse", "SHARE", "Sparse attention: chosen tokens that the next query token chooses again."),
    ] = Query.topk_reuse
    state_rollback: Annotated[
        str,
        _option(
            "--state-rollback",
            "|".join(get_args(Rollback)),
            "Recurrent layers: verification keeps every state, or one.",
        ),
    ] = Query.state_rollback
    kv_page: Annotated[str, _option("--kv-page --block-size", "COUNT", "Tokens per page of the caches.")] = str(
        Query.kv_page
    )
    max_gamma: Annotated[int, _option("--max-gamma", "N", "Longest draft that the search for the best one tries.")] = (
        Query.max_gamma
    )
    batch_range: Annotated[
        str, _option("--batch-range", "LOW..HIGH", "Batches over which inflection_context wants speedup not to fall.")
    ] = "..".join(f"{end:.0f}" for end in DEFAULT_BATCH_RANGE)
    memory_fraction: Annotated[
        float,
        _option("--memory-fraction --gpu-memory-utilization", "SHARE", "Share of device memory that may be used."),
    ] = DEFAULT_MEMORY_FRACTION

    def grid(self) -> Grid:
        """All combinations of what was typed. Raises InputError naming the flag."""
        if self.accounting not in get_args(Accounting):
            raise unknown_name("--accounting", "accounting", self.accounting, get_args(Accounting))
        gammas = parse_gammas(self.gamma)
        if self.tokens_per_iteration is not None and len(gammas) > 1:
            raise InputError("--tokens-per-iteration: needs one --gamma N, the draft length at which it was measured")
        axes: dict[str, Any] = {
            "model": parse_names(self.model, "--model"),
            "hardware": parse_names(self.hardware, "--hardware"),
            "tp": parse_counts(self.tp, "--tp"),
            "draft_kv": parse_methods(self.draft_kv),
            "alpha": (None,) if self.alpha is None else parse_numbers(self.alpha, "--alpha"),
            "batch": parse_counts(self.batch, "--batch"),
            "context": parse_counts(self.context, "--context"),
            "gamma": gammas,
        }
        typed = {f.name: getattr(self, f.name) for f in fields(self)} | {
            name: values[0] for name, values in axes.items()
        }
        typed["batch_range"] = parse_span(self.batch_range, "--batch-range")
        typed["new_tokens"] = parse_count(self.new_tokens, "--new-tokens")
        typed["kv_page"] = parse_count(self.kv_page, "--kv-page")
        return Grid(Query(**typed), **axes)

    def queries(self, *several: str, most: int = 10_000) -> list[Query]:
        """One question per point, where only the fields named in `several` may be lists."""
        grid = self.grid()
        for name in AXES:
            if len(getattr(grid, name)) > 1 and name not in several:
                flag = "--" + name.replace("_", "-")
                raise InputError(
                    f"{flag}: must be one value here, given {len(getattr(grid, name))}; `perfmodel sweep` takes lists"
                )
        if grid.rows > most:
            flags = "--batch, --context, --gamma"
            raise InputError(f"{flags}: at most {most} points here, given {grid.rows}; `perfmodel sweep` takes more")
        return list(grid.queries())


def fit(batch: float, room: Memory) -> dict[str, Any]:
    """Whether a batch fits, and the warning where it does not, for a row of an answer."""
    return {"fits": bool(room.fits), "max_batch": int(room.max_batch), "warnings": room.shortage(batch)}


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's first parameter, a `Question` or a subclass, by one flag for each of its fields."""
    first, *rest = inspect.signature(command).parameters.values()
    kind = first.annotation
    hints = get_type_hints(kind, include_extras=True)
    flags = [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
            annotation=hints[f.name],
        )
        for f in fields(kind)
    ]

    @wraps(command)
    def filled(**values: Any) -> None:
        question = kind(**{flag.name: values.pop(flag.name) for flag in flags})
        command(question, **values)

    parameters = [*flags, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in rest)]
    filled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    filled.__annotations__ = {p.name: p.annotation for p in parameters}
    return filled
