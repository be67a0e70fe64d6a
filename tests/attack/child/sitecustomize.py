"""Python runs this first in every child of a run with a mutant: the child has it too, or says which lines it
runs.
"""

import os
import sys
from multiprocessing.util import Finalize
from pathlib import Path

ROOT = Path(__file__).parents[3]
if "MUTANT" in os.environ:
    sys.path.insert(0, str(ROOT))
    from tests.attack.changes import install

    path, _, place = os.environ["MUTANT"].rpartition(":")
    install(Path(path), int(place))
    sys.path.remove(str(ROOT))
elif "COVERED" in os.environ:
    import coverage

    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    tree = [f"{ROOT}/perfmodel/*", f"{ROOT}/validate/*"]
    options = {"context": f"{test.partition('::')[0]}|{test}", "messages": False}
    cover = coverage.Coverage(os.environ["COVERED"], True, include=tree, **options)
    cover.start()
    Finalize(None, lambda: (cover.stop(), cover.save()), exitpriority=-100)
