#!/usr/bin/env bash
# Time `benchmarks/parts.py warm` on another commit and on this tree, in turns on one machine, and print the ratios.
#
#   bash benchmarks/compare.sh BASE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:?usage: bash benchmarks/compare.sh BASE}
here=$PWD
python=$here/.venv/bin/python
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/base" "$base"
for turn in 1 2; do
    for tree in base here; do
        root=$here
        [ $tree = base ] && root=$work/base
        (cd "$work" && PYTHONPATH=$root "$python" "$here/benchmarks/parts.py" warm > "$tree$turn.json")
    done
done
"$python" - "$work" <<'END'
import json, sys
from pathlib import Path

best = {}
for path in sorted(Path(sys.argv[1]).glob("*.json")):
    for name, value, unit, *_ in json.loads(path.read_text()):
        times = best.setdefault(f"{name}, {unit}", {})
        times[path.stem[:4]] = min(times.get(path.stem[:4], float("inf")), value)
print(f"{'best of two turns':60} {'base':>9} {'this tree':>9} {'ratio':>6}")
for name, times in best.items():
    print(f"{name:60} {times['base']:9.3g} {times['here']:9.3g} {times['here'] / times['base']:6.2f}")
END
