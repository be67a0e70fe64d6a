"""Live servers with a fault, what they send torn at random: one line each, nothing kept, bounded memory."""

from pathlib import Path
from random import Random
from unittest import mock

from perfmodel.validate.engine import client
from tests.attack import watch
from tests.validate.engine.hostile_server import FAULTS, broken

ASK = (
    "validate",
    "engine",
    "--model",
    "llama-68m",
    "--hardware",
    "h100",
    "--calibration",
    "ideal",
    "--batches",
    "1",
)
ASK += ("--prompts", "8", "--new-tokens", "12")
ROUNDS = 3


def attack(tally: watch.Tally, folder: Path, seed: int) -> None:
    """Every fault, `ROUNDS` times; how its bytes are torn follows from the seed."""
    with mock.patch.multiple(client, PAGE_S=1.0, ANSWER_S=1.0):
        for name, fault in FAULTS.items():
            for again in range(ROUNDS):
                with broken(fault, Random(f"{seed}:{name}:{again}")) as url:
                    refused, wrong = watch.run([*ASK, "--url", url, "--results", str(folder)])
                if not wrong and (not refused or list(folder.iterdir())):
                    wrong = "was taken for a good one" if not refused else "left something behind"
                tally.count(name.partition(":")[0], refused, wrong and f"{wrong} ({name}, seed {seed})")
