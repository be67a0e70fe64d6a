#!/usr/bin/env bash
# Time benchmarks/test_speed.py on another commit and on this tree, in turns on one machine, and print the ratios.
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
        (cd "$work" && PYTHONPATH=$root "$python" -m pytest "$here/benchmarks/test_speed.py" --rootdir "$work" -q \
            -p no:cacheprovider --benchmark-storage "$work/runs" --benchmark-save "$tree$turn" > "$work/log" 2>&1) ||
            { cat "$work/log" >&2; exit 1; }
    done
done
"$python" - "$work/runs" <<'END'
import json, sys
from pathlib import Path

best = {}
for path in sorted(Path(sys.argv[1]).rglob("*.json")):
    tree = path.stem.split("_")[1].rstrip("12")
    for row in json.loads(path.read_text())["benchmarks"]:
        times = best.setdefault(row["name"], {})
        times[tree] = min(times.get(tree, 1e9), row["stats"]["min"])
print(f"{'best of two turns':36} {'base':>12} {'this tree':>12} {'ratio':>7}")
for name, times in best.items():
    ratio = times["here"] / times["base"]
    print(f"{name:36} {times['base'] * 1e6:9.1f} us {times['here'] * 1e6:9.1f} us {ratio:7.2f}")
END
