"""Run by the engine's Python: the flags that the parsers of vLLM and SGLang know, as JSON on the output.

A flag maps to ``flag`` if it stands alone, to its choices, or to the type of its value.
"""

import argparse
import json
import sys
from pathlib import Path

from parse_sglang import Finder  # type: ignore[import-not-found]


def vocabulary(parser: argparse.ArgumentParser) -> dict[str, object]:
    """Every spelling of every flag, and what may follow it."""
    known: dict[str, object] = {}
    for action in parser._actions:
        for spelling in action.option_strings:
            known[spelling] = value_of(action)
    return dict(sorted(known.items()))


def value_of(action: argparse.Action) -> object:
    """What may follow a flag."""
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return "flag"
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    return {int: "int", float: "float"}.get(action.type, "text")  # type: ignore[call-overload]


def of_vllm() -> dict[str, object]:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return vocabulary(make_arg_parser(FlexibleArgumentParser()))


def of_sglang(engine: Path) -> dict[str, object]:
    sys.path.insert(0, str(engine / "sglang"))
    sys.meta_path.append(Finder())
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return vocabulary(parser)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    json.dump({"vllm": of_vllm(), "sglang": of_sglang(folder)}, sys.stdout)
