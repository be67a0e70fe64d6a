"""``--help`` of a verb: its flags in groups, defaults as values, and one example; aliases work and are not listed."""

from typing import Any

from typer.core import TyperCommand

from perfmodel.answers.arguments import GROUPS, OUTPUT
from perfmodel.cli.examples import EXAMPLES


class Verb(TyperCommand):
    """A command whose ``--help`` is in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments by position, then the flags by heading."""
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Arguments", *GROUPS)}
        params: list[Any] = self.get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                rows["Arguments"].append((param.metavar or param.name.upper(), param.help or ""))
            elif not param.hidden:
                rows[getattr(param, "rich_help_panel", None) or OUTPUT].append((_flags(param), _said(param)))
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
    value = "" if param.is_flag else f" {param.metavar or param.type.name.upper()}"
    return ", ".join([*short, own]) + value


def _said(param: Any) -> str:
    """What a flag means, and its default."""
    default = param.show_default if isinstance(param.show_default, str) else param.default
    shown = (
        f" [default: {default}]"
        if default not in (None, "", (), []) and default is not False and not param.required
        else ""
    )
    return f"{param.help or ''}{' [required]' * bool(param.required)}{shown}"
