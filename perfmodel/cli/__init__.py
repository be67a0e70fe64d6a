"""The ``perfmodel`` command. Each subcommand, such as ``whatif``, has its own module, which is imported when
the subcommand is used.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import takewhile
from typing import Any

import click
from click.shell_completion import shell_complete

from perfmodel.errors import InputError, not_installed, one_line, unknown_name

HEADINGS = {
    "Ask": {
        "whatif": "Does speculation pay off for this model, device, batch and context, and why?",
        "sweep": "Answer a grid of questions and write it to a CSV or Parquet file.",
        "ops": "List every operation of one pass: FLOPs, bytes, time and limit.",
        "inflection": "Find the memory-bound, break-even and inflection context lengths.",
    },
    "Decide": {
        "advise": "Find the best draft, draft length, batch and layout, or recommend the baseline.",
        "schedule": "Find the draft length for each batch size and context.",
        "tree": "Find the best tree of drafted tokens for each batch and context.",
        "hierarchy": "Predict two levels: a small model drafts for the sparse self-draft.",
        "traffic": "Predict latency, saturation rate and replicas for a request rate.",
        "compare": "Compare speculation with batching.",
    },
    "Explore": {
        "explore": "Write speedup surfaces as one HTML file for a browser.",
        "plot": "Draw answers as .png, .svg or .pdf (needs the plot extra).",
        "mcp": "Run a Model Context Protocol server for assistants (needs the mcp extra).",
        "serve": "Predict the time of a batch over HTTP, for simulators and planners.",
    },
    "Data": {
        "gpus": "List, show or check devices.",
        "models": "List, show or check models.",
        "kv": "List, show or check KV methods of a draft.",
        "engines": "List, show or check engines.",
        "calibrations": "List, show, check or import calibrations.",
    },
    "Measure": {"validate": "Measure, calibrate and compare with measurements (needs the validate extra)."},
}
"""Heading in ``--help`` -> the verbs below it -> the purpose of each."""
COMMANDS = {verb: summary for verbs in HEADINGS.values() for verb, summary in verbs.items()}

RATES = ("--alpha", "--acceptance-rate", "--tokens-per-iteration")
INSTEAD = {
    "tree": dict.fromkeys(
        (*RATES, "--acceptance"), "give the acceptance of the 1st, 2nd, ... child instead: --rates 0.6,0.1"
    ),
    "hierarchy": dict.fromkeys(
        ("--draft", "--draft-model"),
        "must be left out here; --small names the small model, --draft-kv the cache of the middle level",
    ),
    "advise": dict.fromkeys(RATES, "give the acceptance of each draft instead: --rate DRAFT=0.8"),
}
"""Verb -> flag of other verbs that it does not have -> the flag to use instead."""
EXTRA_OF = dict.fromkeys(("torch", "safetensors", "pandas", "validate"), "validate")
EXTRA_OF |= {"scipy": "fit", "httpx": "engine", "matplotlib": "plot", "mcp": "mcp", "anyio": "mcp"}
"""Module that a base installation lacks -> the extra that installs it."""


def command(verb: str) -> click.Command:
    """Imports the module of one subcommand and returns its `app`. Raises InputError for an unknown name."""
    if verb not in COMMANDS:
        raise unknown_name("perfmodel", "command", verb, COMMANDS)
    module = import_module("perfmodel.validate.cli" if verb == "validate" else f"perfmodel.cli.{verb}")
    app: click.Command = module.app
    app.name = verb
    return app


class LazyGroup(click.Group):
    """The group of the subcommands in `COMMANDS`. A subcommand is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the subcommands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of subcommands for ``--help`` without importing them."""
        for heading, verbs in HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl(list(verbs.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="perfmodel", message="perfmodel %(version)s", help="Print the version.")
def app() -> None:
    """Should your LLM server speculate, with which draft, how many tokens, in which layout? Ask before you
    rent the GPU.
    """


COMPLETION = "_PERFMODEL_COMPLETE"
"""The environment variable with which a shell asks for its completion script (``bash_source``). The script
then sets it to ask for completions.
"""
TERMINATED = 143
"""Exit status after SIGTERM, as shells give it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with 0 (success), 1 (a failed check), 2 (wrong input), 130 (Ctrl-C)
    or 143 (SIGTERM).

    If a signal interrupts the command, unfinished files are removed.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    status = run(sys.argv[1:] if arguments is None else arguments)
    sys.stderr.flush()
    # without the clean-up of all modules, which takes a sixth of a short run and in which threads of gloo can
    # abort the process; `run` has flushed the output
    os._exit(status)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit status. A user's mistake gives one line on stderr, and a bug
    gives a traceback.
    """
    if sys.stdout is None:  # the caller closed it, so the output is discarded
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    # file names may have any character
    getattr(sys.stdout, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        if shell := os.environ.get(COMPLETION):
            return shell_complete(app, {}, "perfmodel", COMPLETION, shell)
        with app.make_context("perfmodel", list(arguments) or ["--help"]) as ctx:
            status = app.invoke(ctx)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough
        _print_nowhere()
        return 0
    except KeyboardInterrupt:
        return 130
    except SystemExit as ended:  # from SIGTERM
        return int(ended.code or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as help:  # a group without a verb
        print(help)
        return 0
    except (InputError, click.UsageError) as error:
        return _refused(_as_given(_about_a_flag(error, arguments) or _sentence(error), arguments))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA_OF:
            raise
        command = " ".join(["perfmodel", *takewhile(str.isalpha, arguments)])
        return _refused(str(not_installed(command, missing, EXTRA_OF[missing])))
    except OSError as error:  # such as a full disk behind stdout; errors of files are InputErrors
        _print_nowhere()
        return _refused(str(InputError(f"{error.filename or 'the output'}: {error.strerror or error}")))
    except MemoryError:
        return _refused("out of memory: ask for fewer points at a time")
    return status if isinstance(status, int) else 0


def _refused(sentence: str) -> int:
    """Prints an error as one line, and returns the exit status of wrong input."""
    print("error:", one_line(sentence), file=sys.stderr)
    return 2


def _print_nowhere() -> None:
    """Discards the rest of the output."""
    with suppress(OSError, ValueError):  # ValueError: stdout is no file, as under a test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _about_a_flag(error: InputError | click.UsageError, arguments: Sequence[str]) -> str:
    """A line about a flag without its value, or about another program's flag with one dash, such as ``-ngl``;
    empty for other mistakes. click reads only the first letter of such a flag.
    """
    from perfmodel.answers.point.foreign_flags import instead_of  # imported only for errors

    if isinstance(error, click.BadOptionUsage):
        for param in _command_of(arguments).params:
            if error.option_name in param.opts and isinstance(param, click.Option) and not param.is_flag:
                return f"{error.option_name}: must be followed by {param.metavar}, given nothing"
    if isinstance(error, click.UsageError):
        for word in arguments:
            has_one_dash = word.startswith("-") and not word.startswith("--")
            if has_one_dash and len(word) > 2 and (instead := instead_of(word)):
                return _foreign(word, instead)
    return ""


def _as_given(sentence: str, arguments: Sequence[str]) -> str:
    """A line about a flag, with the long name that was given, such as ``--pass`` for ``--stage``."""
    flag, colon, rest = sentence.partition(":")
    given = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    if not colon or not flag.startswith("--") or flag in given:
        return sentence
    for param in _command_of(arguments).params:
        if flag in param.opts and (other := given.intersection(param.opts)):
            return f"{min(other)}{colon}{rest}"
    return sentence


def _foreign(flag: str, instead: str) -> str:
    """A line about a flag of another program.

    - instead: the flag or command of `perfmodel`, in words.
    """
    return f"{flag}: not a flag of this command; here: {instead}"


def _command_of(arguments: Sequence[str]) -> click.Command:
    """The command that the first words name."""
    found: click.Command = app
    for word in arguments:
        inner = found.get_command(click.Context(found), word) if isinstance(found, click.Group) else None
        if inner is None:
            break
        found = inner
    return found


def _sentence(error: Any) -> str:
    """One line about a mistake, with arguments spelled as flags."""
    text = error.as_flags if isinstance(error, InputError) else error.format_message()
    if isinstance(error, click.NoSuchOption):
        from perfmodel.answers.point.foreign_flags import instead_of  # imported only for errors
        from perfmodel.answers.point.not_modelled import not_modelled

        near = ", ".join(sorted(error.possibilities or ()))
        text = f"No such option: {error.option_name}" + (f" (Possible options: {near})" if near else "")
        if instead := instead_of(error.option_name):
            text = _foreign(error.option_name, instead)
        elif what := not_modelled(error.option_name):
            text = f"{error.option_name}: {what}"
    verb = getattr(getattr(error, "ctx", None), "info_name", "")
    option = getattr(error, "option_name", "")
    if (hint := INSTEAD.get(verb, {}).get(option)) is not None:
        text = f"{option}: {hint}"
    return " ".join(text.split())
