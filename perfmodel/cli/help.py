"""``--help`` of a verb: its flags in groups, defaults as values, and one example; aliases work and are not
listed.
"""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

from perfmodel.cli.examples import EXAMPLES

QUESTION, OUTPUT = "Question", "Output"
HEADINGS: dict[str, tuple[str, ...]] = {
    QUESTION: (),
    "Draft": (
        "draft",
        "draft_tp",
        "draft_kv",
        "draft_path",
        "max_gamma",
        "small",
        "small_kv",
        "gamma_1",
        "gamma_2",
        "tree",
        "any_draft",
        "middle_kv",
        "inner_gamma",
        "size",
        "levels",
    ),
    "Acceptance": (
        "alpha",
        "acceptance_rate",
        "tokens_per_iteration",
        "acceptance",
        "new_tokens",
        "rate",
        "rates",
        "small_rate",
        "acceptance_std",
        "task",
        "convert",
        "format",
        "lengths",
        "target",
    ),
    "Formats": ("weights", "draft_weights", "kv_dtype", "draft_kv_dtype", "dtype"),
    "Engine": (
        "engine",
        "version",
        "calibration",
        "dynamic_price",
        "attention_backend",
        "kv_reread",
        "kv_page",
        "topk_reuse",
        "state_rollback",
        "memory_fraction",
        "max_num_seqs",
        "max_num_batched_tokens",
    ),
    "Run": (
        "machine",
        "threads",
        "minutes",
        "results",
        "resume",
        "dry_run",
        "device",
        "seed",
        "attention",
        "pointwise",
        "graphs",
    ),
    OUTPUT: ("output", "out", "json", "verbose", "sensitivity", "write", "plot", "help"),
}
"""Heading of ``--help`` -> the parameters below it; all others are the question's."""
HEADING = {name: heading for heading, names in HEADINGS.items() for name in names}


class AsTyped:
    """typer's type of a flag: it converts nothing, because its `Argument` reads the text. (typer would build
    a validator.)
    """

    @staticmethod
    def coerce(value: Any, **_: Any) -> Any:
        """As it was typed."""
        return value

    @classmethod
    def let(cls, params: Iterable[Any]) -> None:
        """Let all texts and switches of a command be as they were typed, where this typer validates."""
        for param in params:
            if getattr(getattr(param, "type_descriptor", None), "annotation", None) in (str, bool):
                param._runtime_param = cls


class GroupedCommand(TyperCommand):
    """A command whose ``--help`` is in groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        AsTyped.let(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments by position, then the flags by heading."""
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Arguments", *HEADINGS)}
        params: list[Any] = self.get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                rows["Arguments"].append((param.metavar or param.name.upper(), _help_text(param)))
            elif not param.hidden:
                rows[HEADING.get(param.name, QUESTION)].append((_flags(param), _help_text(param)))
        for heading, lines in rows.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example."""
        path = ctx.command_path.partition(" ")[2]
        if path in EXAMPLES:
            with formatter.section("Example"):
                formatter.write_text(f"perfmodel {path} {EXAMPLES[path]}".rstrip())


def _flags(param: Any) -> str:
    """The flag's own name, a short one before it, and how its value is written."""
    short = [flag for flag in param.opts if not flag.startswith("--")]
    own = next(flag for flag in param.opts if flag.startswith("--"))
    value = "" if param.is_flag else f" {param.metavar}"
    return ", ".join([*short, own]) + value


def _help_text(param: Any) -> str:
    """Meaning of a flag, and its default."""
    default = param.show_default if isinstance(param.show_default, str) else param.default
    unsaid = default in (None, "", (), []) or default is False or param.required
    shown = "" if unsaid else f" [default: {default}]"
    return f"{param.help or ''}{' [required]' * bool(param.required)}{shown}"
