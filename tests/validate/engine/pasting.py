"""Samples of pasted texts, and the command that reads one from standard input."""

import io
import sys
from pathlib import Path

from perfmodel.cli import run

SAMPLES = Path(__file__).parent / "pastes"
ASK = ["validate", "engine", "--model", "qwen3.6-27b", "--weights", "q4_k_m", "--hardware", "rtx-3090"]
NAMES = sorted(path.stem for path in SAMPLES.iterdir())


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")


def pasted(monkeypatch, capsys, text: str, *more: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status = run([*ASK, *more])
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())
