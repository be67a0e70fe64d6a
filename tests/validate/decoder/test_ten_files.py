"""A newcomer reads a chain that the target drafts for itself in few files and statements."""

import ast
import re
import sys
from pathlib import Path
from types import FrameType

from perfmodel.validate import decoder
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.request import Request


def test_ten_files_and_800_statements(target, prompts) -> None:
    """Those that the package's docstring lists; a generation runs through these, and five formulas and
    containers.
    """
    listed, besides = (
        re.findall(r"`([\w.]+)`", part) for part in (decoder.__doc__ or "").split("\n\n")[1].split("What")
    )
    folder, ran = Path(decoder.__file__).parent, set[str]()
    assert len(listed) == 10
    trees = [ast.parse((folder / f"{name.replace('.', '/')}.py").read_text()) for name in listed]
    assert sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree)) <= 800

    def seen(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(folder):
            ran.add(".".join(path.relative_to(folder).with_suffix("").parts))

    chain = make_decoder(target, Request(4, 70, 8, 3, draft_kv="snapkv:24,window=8"))
    sys.setprofile(seen)
    try:
        chain.generate(prompts, 8)
    finally:
        sys.setprofile(None)
    assert ran == {*listed, *besides}
