"""The printed plan, pasted into a shell whose `vllm` is a stand-in: it starts, waits, times, stops and
fits.
"""

import os
import shutil
import socket
import subprocess
import sys

import pytest

from perfmodel.cli import run

ASK = ["--model", "qwen3-32b", "--hardware", "h100", "--tp", "2", "--draft", "eagle3"]
VLLM = '''#!{python}
"""vllm serve and vllm bench serve: 10 ms a step, 0.1 ms a sequence, 2 ms a drafted token (half accepted)."""
import json, sys, time, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
words = sys.argv[1:]
def after(flag, otherwise=None):
    return words[words.index(flag) + 1] if flag in words else otherwise
port = int(after("--port"))
if words[0] == "serve":
    gamma = json.loads(after("--speculative-config", "{{}}")).get("num_speculative_tokens", 0)
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(gamma).encode())
        def log_message(self, *_):
            pass
    time.sleep(0.5)
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()
gamma = int(urllib.request.urlopen(f"http://127.0.0.1:{{port}}/gamma", timeout=9).read())
flags = ("--max-concurrency", "--random-input-len", "--random-output-len")
batch, prompt, new = (int(after(flag)) for flag in flags)
rates = [0.5**j for j in range(1, gamma + 1)]
step_ms = 10 + batch * (0.1 + prompt / 40960) + 2 * gamma
tpot_ms = step_ms / (1 + sum(rates))
found = {{"endpoint_type": "openai", "duration": (1 + tpot_ms * (new - 1)) / 1e3,
         "max_concurrency": batch, "completed": batch,
         "median_ttft_ms": 1, "total_input_tokens": batch * prompt, "total_output_tokens": batch * new,
         "median_tpot_ms": tpot_ms}}
if gamma:
    found |= {{"spec_decode_per_position_acceptance_rates": rates, "spec_decode_num_drafts": 1000}}
open(after("--result-filename"), "w").write(json.dumps(found))
'''


@pytest.mark.skipif(shutil.which("curl") is None, reason="the plan waits with curl")
@pytest.mark.slow
def test_the_plan_works_as_pasted(tmp_path, capsys) -> None:
    results = tmp_path / "results"
    assert run(["validate", "engine", "--plan", *ASK, "--results", str(results), "--batches", "1,8"]) == 0
    plan = capsys.readouterr().out
    assert '"model": "RedHatAI/Qwen3-32B-speculator.eagle3"' in plan
    tools = tmp_path / "bin"
    tools.mkdir()
    commands = {
        "vllm": VLLM.format(python=sys.executable),
        "perfmodel": f'#!/bin/sh\nexec {sys.executable} -m perfmodel "$@"\n',
        "sleep": "#!/bin/sh\nexec /bin/sleep 0.1\n",
    }
    for name, text in commands.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    folder = tmp_path / "runs"
    folder.mkdir()
    installed = tools / "vllm-9.9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: vllm\nVersion: 9.9\n")
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(tools)}
    done = subprocess.run(
        ["bash", "-c", plan], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    runs = [(k, s, c) for k in (0, 2, 7) for s, c in ((512, 1), (512, 8), (4096, 8))]
    assert {path.name for path in folder.iterdir()} == {f"K{k}-{s}-{c}.json" for k, s, c in runs}
    assert len([line for line in done.stdout.splitlines() if line.startswith("B=")]) == len(runs)
    (calibration,) = results.rglob("*.yaml")
    assert calibration.name == "h100-sxm-80gb.vllm-9.9.yaml"
    assert f"calibration: {calibration}" in done.stdout
    for port in (8100, 8101, 8102):  # nothing is left running
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=1):
            pass


def test_a_head_that_nobody_published_must_be_named(capsys) -> None:
    arguments = [
        "validate",
        "engine",
        "--plan",
        "--model",
        "qwen2.5-7b",
        "--hardware",
        "h100",
        "--draft",
        "eagle3",
    ]
    assert run(arguments) == 2
    assert capsys.readouterr().err == "error: --draft-path: must say where the engine finds the eagle3 head\n"
    assert run([*arguments, "--draft-path", "mine/head"]) == 0
    assert '"model": "mine/head"' in capsys.readouterr().out
