#!/usr/bin/env bash
# The wheels that a GPU machine without msgspec needs, for CPython 3.12 on x86-64 Linux: bash benchmarks/wheels.sh PYTHON FOLDER
set -euo pipefail
"$1" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest "$2" \
    msgspec==0.22.0
