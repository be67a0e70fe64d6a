"""The ``perfmodel`` command. Every verb is a module that is loaded on use."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from perfmodel.cli.help import AsTyped
from perfmodel.errors import InputError, not_installed, one_line, refuse, unknown_name

HEADINGS = {
    "Ask": {
        "whatif": "Does speculation pay for this model, device, batch and context, and why?",
        "sweep": "Answer a whole grid into a CSV or Parquet file.",
        "ops": "Every operation of one pass: FLOPs, bytes, time and what limits it.",
        "inflection": "The three context lengths where something turns.",
        "inverse": "What must hold for speculation to reach a target speedup.",
    },
    "Decide": {
        "advise": "Which draft, cache, length and devices are best, or is the baseline?",
        "schedule": "Draft length by batch size and context, for vLLM and SGLang.",
        "tree": "Which tree of drafted tokens, for each batch and context.",
        "hierarchy": "Two levels: a small model before the sparse self-draft.",
        "moe": "Mixtures of experts: what verification reads, where speculation peaks.",
        "traffic": "A request rate: latency, saturation and replicas, with and without a draft.",
        "compare": "Speculation or batching, and how both compose.",
    },
    "Explore": {
        "explore": "Speedup surfaces to explore in a browser: one HTML file.",
        "plot": "Pictures of the answers, as .png or .svg (matplotlib).",
    },
    "Data": {
        "gpus": "The devices: list, show, check.",
        "models": "The models: list, show, check.",
        "kv": "The draft's KV methods: list, show, check.",
        "engines": "The engines: list, show, check.",
        "calibrations": "The calibrations: list, show, check.",
    },
    "Measure": {"validate": "Measure, calibrate and compare with measurements (extra: validate)."},
}
"""Heading in ``--help`` -> the verbs below it -> the purpose of each."""
COMMANDS = {verb: said for verbs in HEADINGS.values() for verb, said in verbs.items()}

BY_RANK = "a tree's acceptance is by rank of the child: --rates 0.6,0.1"
BY_DRAFT = "acceptances are by draft here: --rate DRAFT=0.8"
RATES = ("--alpha", "--acceptance-rate", "--tokens-per-iteration")
INSTEAD = {
    "tree": dict.fromkeys((*RATES, "--acceptance"), BY_RANK),
    "advise": dict.fromkeys(RATES, BY_DRAFT),
    "pareto": dict.fromkeys(RATES, BY_DRAFT),
    "hierarchy": dict.fromkeys(
        ("--draft", "--draft-model"), "the small model is --small, the middle's cache --draft-kv"
    ),
}
"""Verb -> a flag of other verbs that it lacks -> the flag to use instead."""
USAGE = 2
"""What click's errors about a command line have as `exit_code`; typer brings a click of its own."""
EXTRA_OF = dict.fromkeys(("torch", "safetensors", "pandas", "validate"), "validate")
EXTRA_OF |= {"scipy": "fit", "httpx": "engine", "matplotlib": "plot"}
"""Module that a base installation lacks -> the extra that brings it."""


def command(verb: str) -> Any:
    """One verb, imported: `app` of its module in this folder. Raises InputError for an unknown one."""
    if verb not in COMMANDS:
        raise unknown_name("perfmodel", "command", verb, COMMANDS)
    module = import_module("perfmodel.validate.cli" if verb == "validate" else f"perfmodel.cli.{verb}")
    found: Any = typer.main.get_command(module.app)
    found.name = verb
    return found


class LazyGroup(TyperGroup):
    """The verbs of `COMMANDS`, each imported on use."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        AsTyped.let(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return command(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of verbs for ``--help``, without importing any."""
        for heading, verbs in HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl(list(verbs.items()))


app = typer.Typer(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"perfmodel {version('perfmodel')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A roofline model of speculative decoding with sparse-KV drafts: does it pay, from which context, by how
    much?
    """


TERMINATED = 143
"""Exit status after SIGTERM, as shells give it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 fine, 1 a check failed, 2 the input was wrong, 130 Ctrl-C,
    143 SIGTERM. The last two remove the files that are not finished.
    """
    signal.signal(signal.SIGTERM, _terminate)
    status = run(sys.argv[1:] if arguments is None else arguments)
    sys.stderr.flush()
    # taking every module apart costs a sixth of a short run, and threads that gloo leaves may then abort the
    # process; `run` has flushed what it printed
    os._exit(status)


def _terminate(*_: object) -> None:
    sys.exit(TERMINATED)


def run(arguments: Sequence[str]) -> int:
    """Exit status of one command line; a user's mistake is one line on stderr, a bug keeps its traceback."""
    if sys.stdout is None:  # closed by whoever called; what is printed goes nowhere
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    # names of files hold anything
    getattr(sys.stdout, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        status = app(args=list(arguments) or ["--help"], prog_name="perfmodel", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough
        _print_nowhere()
        return 0
    except KeyboardInterrupt:
        return 130
    except SystemExit as ended:  # raised by `_terminate`, by shell completion, and by click for `| head`
        if isinstance(ended.__context__, BrokenPipeError):
            _print_nowhere()
            return 0
        return int(ended.code or 0)
    except InputError as error:
        return _refused(_sentence(error))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA_OF:
            raise
        asked = " ".join(["perfmodel", *takewhile(str.isalpha, arguments)])
        return _refused(str(not_installed(asked, missing, EXTRA_OF[missing])))
    except OSError as error:  # a full disk behind stdout, say; files have been told apart by now
        _print_nowhere()
        return _refused(f"{error.filename or 'the output'}: {error.strerror or error}")
    except MemoryError:
        return _refused("out of memory: ask for fewer points at a time")
    except Exception as error:
        if getattr(error, "exit_code", None) != USAGE:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # its text is the help of a group without a verb
            print(str(error))
            return 0
        return _refused(_sentence(error))
    return status if isinstance(status, int) else 0


def _refused(sentence: str) -> int:
    print("error:", one_line(sentence), file=sys.stderr)
    return 2


def _print_nowhere() -> None:
    """Discards the rest of the output."""
    with suppress(OSError, ValueError):  # ValueError: stdout is no file, as under a test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(error: Any) -> str:
    """One line for a mistake, with arguments as flags; typer's own message about a number lacks the given
    value.
    """
    faults = getattr(error.__cause__, "errors", None)
    if faults is not None and getattr(error, "param", None) is not None:
        fault = faults()[0]
        allowed = fault["msg"].partition(",")[0].removeprefix("Input should be ")
        return refuse(error.param.opts[0], None, allowed, fault["input"]).as_flags
    text = error.as_flags if isinstance(error, InputError) else error.format_message()
    verb = getattr(getattr(error, "ctx", None), "info_name", "")
    if (hint := INSTEAD.get(verb, {}).get(getattr(error, "option_name", ""))) is not None:
        text = f"{error.option_name}: {hint}"
    return " ".join(text.split())
