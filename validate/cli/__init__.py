"""``perfmodel validate``: the verbs that need a measurement."""

from perfmodel.cli.commands import LLAMA
from perfmodel.cli.grouped_help import App
from perfmodel.validate.cli.acceptance import acceptance
from perfmodel.validate.cli.accuracy import accuracy
from perfmodel.validate.cli.calibrate import calibrate
from perfmodel.validate.cli.check import check
from perfmodel.validate.cli.compare import compare
from perfmodel.validate.cli.engine import engine
from perfmodel.validate.cli.generate import generate
from perfmodel.validate.cli.measure import finish, measure, microbench, plans
from perfmodel.validate.cli.report import report
from perfmodel.validate.cli.run import run

app = App("Measure, calibrate and compare predictions with measurements.")
for verb, example in {
    generate: "--draft-kv streamingllm:256 --batch 1 --context 1k --new-tokens 32",
    measure: "cpu-quick --machine cpu-1",
    microbench: "cpu-quick --machine cpu-1",
    run: "cpu-quick",
    finish: "results/local-1/20260101T000000Z-cpu-quick.journal",
    report: "cpu-1",
    plans: "",
    acceptance: "--draft-kv streamingllm:256 --context 1k --out acceptance.json",
    engine: f"{LLAMA} --draft eagle --plan",
    compare: "--held-out --set magicdec --row 3c-13",
    calibrate: "a100-sxm-80gb.magicdec",
    check: "--results results --max-error 20%",
    accuracy: "",
}.items():
    app.command(example=example)(verb)
