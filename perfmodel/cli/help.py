"""``--help`` of a verb: its flags in groups, defaults as values, and one example; aliases work and are not
listed.
"""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

QUESTION, OUTPUT = "Question", "Output"
GROUPS = (QUESTION, "Draft", "Acceptance", "Formats", "Engine", "Run", OUTPUT)
"""Headings of flags, in the order of ``--help``; an `Argument`, or a flag's `rich_help_panel`, names one."""
COMMON = ("model", "hardware", "batch", "context", "alpha")
"""Arguments that most questions need; marked where a verb has all of them."""
MARK = "* most questions need no others"
LLAMA = "--model llama-3.1-8b --hardware h100"
"""What most examples are about."""


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
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Arguments", *GROUPS)}
        params: list[Any] = self.get_params(ctx)
        common = COMMON if {*COMMON} <= {param.name for param in params} else ()
        for param in params:
            if param.param_type_name == "argument":
                rows["Arguments"].append((param.metavar or param.name.upper(), _help_text(param)))
            elif not param.hidden:
                heading = OUTPUT if param.name == "help" else param.rich_help_panel or QUESTION
                mark = "* " if param.name in common else ""
                rows[heading].append((mark + _flags(param), _help_text(param)))
        for heading, lines in rows.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)
        if common:
            formatter.write_paragraph()
            formatter.write_text(MARK)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example."""
        shown = getattr(self.callback, "example", None)
        if shown is not None:
            with formatter.section("Example"):
                formatter.write_text(f"{ctx.command_path} {shown}".rstrip())


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
