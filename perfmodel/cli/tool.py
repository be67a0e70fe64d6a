"""Runs one tool call of an LLM assistant in its own process: ``python -m perfmodel.cli.tool``.

The process reads the call from stdin and writes its result to stdout, both as JSON. `perfmodel mcp` ends the
process when the call is cancelled or takes too long.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.declaration import Verb
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.errors import InputError, as_names, one_line, shortened
from perfmodel.reading import only

TOOLS: dict[str, Verb[..., Any]] = {verb.__name__: verb for verb in (whatif, advise, traffic, schedule)}
"""The verbs that an assistant may use."""


def called(name: str, given: dict[str, Any], files: Path | None) -> dict[str, Any]:
    """Calls a tool. Returns the headline (`text`) and the answer, or only an error message (`text`).

    - name: the verb.
    - given: its arguments.

    Only bundled files and files in the folder `files` are read. An error message never contains the contents
    of a file.
    """
    try:
        if name not in TOOLS:
            raise InputError(f"tool: must be one of {', '.join(TOOLS)}, given {shortened(name)}")
        with only(files):
            answer = TOOLS[name](**given)
            return {"text": answer.headline(), "answer": answer.as_dict()}
    except InputError as error:
        if error.of_file is None:
            return {"text": one_line(str(error))}
        place = one_line(as_names(error.of_file))
        return {"text": f"{place}: does not answer this question; the command line gives the reason"}


def main() -> None:
    """Answers the call on stdin."""
    call = json.load(sys.stdin)
    files = None if call["files"] is None else Path(call["files"])
    if files is not None:
        os.chdir(files)  # names of files are relative to it
    json.dump(called(call["name"], call["arguments"], files), sys.stdout)


if __name__ == "__main__":
    main()
