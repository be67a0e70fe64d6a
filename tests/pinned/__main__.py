"""``python -m tests.pinned --write [COMMAND...]``."""

import sys

from tests import pinned

if sys.argv[1:2] != ["--write"]:
    sys.exit(f"usage: {pinned.REWRITE} [COMMAND...]")
for command in pinned.write(sys.argv[2:]):
    print(command)
