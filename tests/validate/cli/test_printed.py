"""What the verbs that measure print and refuse, on figures made up: every line by hand."""

import json

from perfmodel.cli import run
from perfmodel.specs.acceptance.acceptance_file import AcceptanceFile
from perfmodel.specs.published import published_points
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.cli.acceptance import as_text, summary
from perfmodel.validate.cli.compare import show_cells
from perfmodel.validate.fit.calibrate import report_lines
from perfmodel.validate.harness.estimate import estimate
from perfmodel.validate.records import load_plan
from tests.validate.tiny_plan import BLOCK, write_plan

SELF_DRAFT = {"target": "t", "draft": "self", "context_tokens": 64}
QUEST = {
    "draft_kv": "quest",
    "kv_budget_tokens": 32,
    "histogram": [1, 2, 1],
    "standard_error": {"documents": 3, "tokens_per_iteration": 0.126, "positions": [0.1, 0.2]},
}
ROWS = [
    SELF_DRAFT | QUEST,
    {**SELF_DRAFT, "draft_kv": "full", "histogram": [1, 2, 1]},
    {**SELF_DRAFT, "draft_kv": "full", "context_tokens": 2.5, "positions": [0.5, 0.25]},
    {**SELF_DRAFT, "draft_kv": "full", "context_tokens": 128, "alpha": 0.5},
]


def test_observed_acceptance_in_a_line() -> None:
    """0, 1, 2 accepted in 1, 2, 1 iterations: 2 tokens in each; 3 of 4, then 1 of 3."""
    table = AcceptanceFile.of_mapping({"schema_version": 1, "source": "a test", "rows": ROWS})
    assert summary(table) == [
        "quest:32             at 64: alpha 0.618, 2.00 +/- 0.13 (3 documents) tokens per iteration, "
        "by position 0.75 0.33",
        "full                 at 64: alpha 0.618, 2.00 tokens per iteration, by position 0.75 0.33",
        "full                 at 2.5: by position 0.50 0.25",
        "full                 at 128: alpha 0.500",
    ]
    lines = as_text(table).splitlines()
    assert lines[0] == '{"schema_version": 1, "source": "a test", "rows": ['
    ends = [line[-2:] for line in lines[1:]]
    assert ends == ["},", "},", "},", "5}", "]}"]
    assert AcceptanceFile.of_mapping(json.loads(as_text(table))) == table


def test_the_ends_of_a_share(capsys) -> None:
    for share in ("0", "-1%", "1001%", "x"):
        assert run(["validate", "check", "--max-error", share]) == 2
        assert "--max-error: must be a number" in capsys.readouterr().err


def test_a_plan_before_it_is_run(tmp_path, capsys) -> None:
    """Two rows of each point that fits; the other has a batch of a million."""
    grid = {**BLOCK, "batch": [1, 10**6], "context": [64, 100000]}
    path = write_plan(tmp_path, grid=[grid])
    assert run(["validate", "measure", str(path), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "test-tiny: A tiny plan for tests; predicted for h100-sxm-80gb, calibration its own"
    points = estimate(load_plan(str(path)))
    minutes = sum(one.seconds for one in points[:3]) / 60
    assert lines[-1] == (
        f"3 points of 4, those that fit, 6 rows, about {minutes:.1f} min, at most 21.2 GB a device"
    )
    for one, line, fits in zip(points, lines[4:-2], ("", "", "", " (does not fit)"), strict=True):
        times = f"{1e3 * one.times.target_s:.2f} ms {1e3 * one.times.iteration_s:.2f} ms"
        rest = f"{one.times.speedup:.2f} {one.seconds:.1f} s"
        needed = f"{one.needed_bytes / 1e9:.2f} GB{fits}"
        assert " ".join(line.split()) == f"{one.point.name} {needed} {times} {rest}"


def test_the_kernels_of_a_plan_by_kind(capsys) -> None:
    kinds = []
    for words in ([], ["--only", "rope", "--only", "shell"]):
        assert run(["validate", "microbench", "cpu-quick", "--dry-run", *words]) == 0
        printed = capsys.readouterr().out.splitlines()
        kinds.append({line.partition("/")[0] for line in printed})
    assert kinds[0] > kinds[1] == {"rope", "shell"}


def test_a_comparison_in_lines(capsys) -> None:
    """One figure twice as long as predicted, and below its bound; a speedup predicted on the wrong side of
    1.
    """
    point = published_points("magicdec")[0]
    step = Cell(point, "target_s", 2.0, 1.0, "c", False, 2.5, True)
    cells = [step, Cell(point, "speedup", 0.8, 1.2, "c")]
    show_cells(cells)
    printed = capsys.readouterr().out.splitlines()
    lines = [" ".join(line.split()) for line in printed if line.strip(" ─")]
    assert lines[1:7] == [
        "magicdec/a100-sxm-80gb/speedup 1 50.00 +50.00 +50.0",
        "magicdec/a100-sxm-80gb/target_s 1 50.00 -50.00 -50.0",
        "correct verdict (speedup above or below 1): 0 of 1",
        "measured below the physical lower bound: 1 of 1 that could be",
        "magicdec/3a-01/target_s: 2 < 2.5",
        "largest errors",
    ]
    place = "3a-01 a100-sxm-80gb llama-2-7b-32k tinyllama-1.1b 32 1024"
    assert lines[8:] == [f"{place} target_s 2 1 -50.0", f"{place} speedup 0.8 1.2 +50.0"]


def test_a_calibration_is_printed_in_words_or_as_json(capsys) -> None:
    """The same fit; that the shipped files are what is written, tests of the fit say."""
    smallest = "h100-sxm-80gb.magicdec"
    assert run(["validate", "calibrate", smallest, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema_version"] == 2
    (fitted,) = answer["rows"]
    assert fitted["calibration"] == smallest
    assert run(["validate", "calibrate", smallest]) == 0
    assert capsys.readouterr().out == "\n".join(report_lines(fitted)) + "\n"


def test_studies_have_no_json(capsys) -> None:
    assert run(["validate", "calibrate", "engines", "--json"]) == 2
    assert "engines: takes only --write" in capsys.readouterr().err
