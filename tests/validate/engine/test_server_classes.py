"""One contract for every engine that a plan of runs measures: it starts, is timed, stopped and read."""

import pytest

from perfmodel.validate.engine.bench_commands import BenchRequest, commands
from perfmodel.validate.engine.servers import bench_servers


@pytest.mark.parametrize("word", bench_servers())
def test_a_plan_starts_times_stops_and_reads_every_engine(word: str) -> None:
    request = BenchRequest("org/m", word, 1, "mtp", None, (2,), (1, 8), (1024,), 64, ("-m", "x"), "out", True)
    plan = commands(request)
    text = "\n".join(plan)
    assert "org/m" in text
    assert text.count("server=$!") == text.count("kill $server; wait $server") >= 1
    assert plan[-1].startswith(f"perfmodel validate engine -m x --engine {word}")
    assert " --from " in plan[-1]
    probe = bench_servers()[word].version_probe(word)
    assert ("--version" in plan[-1]) == bool(probe), "our driver asks the server itself"
    assert word in probe or "out/engine-" in plan[-1]
