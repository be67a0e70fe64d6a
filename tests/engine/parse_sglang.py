"""Run by the engine's Python: SGLang's own ServerArgs and adaptive-file reader take our lines, or say why
not.

The wheel's sources are on disk (install.py); of what they import only `STUBBED` is not there.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import shlex
import sys
import tempfile
import types
from pathlib import Path
from unittest.mock import MagicMock

STUBBED = ("orjson", "IPython")
"""Imported at load, used by no parser."""


class Stub(types.ModuleType):
    """A module in which every name is there."""

    __path__ = ()

    def __getattr__(self, name: str) -> MagicMock:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stubs, last of all."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name.split(".")[0] in STUBBED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def main(engine: Path) -> int:
    sys.path.insert(0, str(engine / "sglang"))
    sys.meta_path.append(Finder())
    from sglang.srt.server_args import ServerArgs
    from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams
    from sglang.version import __version__

    parser = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(parser)
    for name, export in json.loads((engine / "lines.json").read_text()).items():
        if not export["sglang_line"]:
            continue
        line = shlex.split(export["sglang_line"])
        module = line.index("-m") + 1  # a variable of the environment may stand first
        args = parser.parse_args(line[module + 1 :])
        if export["sglang_adaptive"]:
            check_adaptive(AdaptiveSpeculativeParams, args.speculative_num_steps, export["sglang_adaptive"])
        if args.speculative_draft_sink_size is not None and args.speculative_draft_window_size is None:
            raise SystemExit(f"{name}: a sink without a window")
        print(f"sglang takes: {name}")
    print(f"sglang {__version__}")
    return 0


def check_adaptive(params, steps: int, config: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    """Every batch size gets the length of its slot, before and after feedback."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        parameters = params(steps, file.name)
        if steps not in parameters.candidate_steps:
            raise SystemExit(f"{steps} is not a candidate of {config}")
        for low, slot in config.items():
            wanted = slot["candidate_steps"][0]  # type: ignore[index]
            for _ in range(40):
                parameters.on_verify_complete([0], int(low))
            if parameters.get_steps_for_batch(int(low)) != wanted:
                raise SystemExit(f"batch {low} gets another length than {wanted}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
