"""The tables of ``advise``: each row is the configuration that it names, under the headings of its cells."""

import re

import pytest

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.text import seconds
from perfmodel.cli.advise_table import SHOWN, print_fronts, print_table


def rows(capsys) -> list[dict[str, str]]:
    """The rows of the printed table, by heading. The names of rows are in the first column of the table."""
    heading, *lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "   " in line]
    names = re.split(" {2,}", heading)
    cells = [re.split(" {2,}", line) for line in lines]
    names = ["row"] * (len(cells[0]) - len(names)) + names
    return [dict(zip(names, row, strict=True)) for row in cells]


def table(a: Advice, capsys, verbose: bool = False) -> list[dict[str, str]]:
    print_table(a, verbose)
    return rows(capsys)


def given(row: dict[str, str], name: str) -> float:
    """A time in seconds, or another number, in a cell."""
    number, _, unit = row[name].removeprefix("~").rstrip("%x").partition(" ")
    return float(number) * {"ms": 1e-3, "us": 1e-6}.get(unit, 1)


@pytest.fixture(scope="module")
def of_experts() -> Advice:
    return advise("gpt-oss-120b", "8xh100", context=8192, rate={"eagle3": "0.75"})


def test_each_row_is_the_configuration_that_it_names(of_experts: Advice, capsys) -> None:
    a = of_experts
    assert a.chosen
    assert a.option
    assert a.runner_up
    assert a.baseline == a.chosen, "the choice itself has no second row"
    chosen, drafted, runner_up, *others = table(a, capsys, verbose=True)
    named = ((chosen, "chosen", a.chosen), (drafted, "with a draft", a.option))
    for row, name, pick in (*named, (runner_up, "runner-up", a.runner_up)):
        assert (row["row"], row["layout"], row["GPUs"]) == (name, pick.layout, "8")
        assert (row["gamma"], row["batch"]) == (str(pick.gamma), str(pick.batch))
        assert row["TPOT"] == seconds(pick.tpot_s)
        assert given(row, "tokens/s/GPU") == pytest.approx(pick.throughput_tokens_per_s_per_device, abs=0.5)
        assert given(row, "over baseline") == pytest.approx(a.gain(pick), abs=0.005)
    assert [row["draft"] for row in (chosen, drafted, runner_up)] == ["none", "eagle3", "none"]
    assert {row["row"] for row in others} == {"other"}
    best = {pick.layout for pick in a.layouts}
    assert {row["layout"] for row in others} | {a.chosen.layout, a.runner_up.layout} == best
    layouts = [row["layout"] for row in (chosen, runner_up, *others)]
    assert len(set(layouts)) == len(layouts), "the best point of each layout has one row"


def test_six_rows_of_other_layouts_are_printed_unless_all_are_asked_for(of_experts: Advice, capsys) -> None:
    short, full = table(of_experts, capsys), table(of_experts, capsys, verbose=True)
    assert SHOWN == 6
    assert len(short) == 3 + 6 < len(full)
    assert full[: len(short)] == short


def test_degrees_of_attention_groups_are_said_as_arguments(of_experts: Advice, capsys) -> None:
    print_table(of_experts, False)
    says = "For this tool, TP 1 DP 8 EP 8 is --tp 8 --dp 8 --ep 8: --tp counts all devices of a server."
    assert says in capsys.readouterr().out
    print_table(advise("gpt-oss-120b", "4xh100", tp=(4,), dp=2, ep=1, context=8192, draft=[]), False)
    assert "For this tool, TP 2 DP 2 is --tp 4 --dp 2: " in capsys.readouterr().out


def test_a_front_shows_both_ends_and_points_at_equal_distances_between(of_experts: Advice, capsys) -> None:
    print_fronts(of_experts)
    printed = rows(capsys)
    for name, front in (
        ("baseline", of_experts.pareto.baseline),
        ("speculating", of_experts.pareto.speculating),
    ):
        points = [row for row in printed if row["front"] == name]
        places = [round(part * (len(front) - 1) / 5) for part in range(6)]
        assert len(points) == 6
        for row, point in zip(points, (front[place] for place in places), strict=True):
            assert (row["batch"], row["gamma"]) == (str(point.batch), str(point.gamma))
            assert (row["layout"], row["draft"]) == (point.layout, "eagle3" if point.gamma else "-")
            assert row["TPOT"] == seconds(point.tpot_s)
            assert row["tokens/s/GPU"] == f"{point.throughput_tokens_per_s_per_device:.0f}"


def test_a_short_front_shows_each_point_once(capsys) -> None:
    a = advise("llama-3.1-8b", "h100", context=32768, batch=(1, 2, 4), rate={"eagle3": "0.75"})
    print_fronts(a)
    batches = [(row["front"], row["batch"]) for row in rows(capsys)]
    assert batches == [(name, batch) for name in ("baseline", "speculating") for batch in "124"]


def test_a_kind_of_device_has_a_price_and_no_gain_over_the_baseline_of_another_kind(capsys) -> None:
    kinds = ("h100", "h200")
    question = {"context": 8192, "rate": {"eagle3": "0.75"}, "objective": "cost"}
    a = advise("llama-3.1-8b", kinds, price=(2, 3), **question)
    chosen, runner_up, other = table(a, capsys)
    assert [(row["row"], row["hardware"]) for row in (chosen, runner_up, other)] == [
        ("chosen", "h100"),
        ("runner-up", "h100"),
        ("other GPUs", "h200"),
    ]
    assert (given(chosen, "over baseline") > 1, other["over baseline"]) == (True, "-")
    for row, price in ((chosen, 2), (other, 3)):
        million_s = 1e6 / given(row, "tokens/s/GPU")
        assert given(row, "$/Mtok") == pytest.approx(price * million_s / 3600, abs=0.006)
        assert re.fullmatch(r"\d+\.\d\d", row["$/Mtok"])


LOAD = {"clients": 64, "input_len": 2048, "output_len": 200, "rate": {"eagle3": "0.75"}}


def test_a_load_has_first_tokens_limits_and_marks_what_was_not_simulated(capsys) -> None:
    a = advise("llama-3.1-8b", "2xh100", max_ttft_ms=300, **LOAD)
    chosen, runner_up, baseline = table(a, capsys)
    picks = (a.chosen, a.runner_up, a.baseline)
    assert [pick.estimated for pick in picks] == [False, True, False]
    for row, pick, mark in zip((chosen, runner_up, baseline), picks, ("", "~", ""), strict=True):
        assert (row["running"], row["gamma"]) == (str(pick.batch), str(pick.gamma))
        assert (row["TTFT"], row["TPOT"]) == (mark + seconds(pick.ttft_s), mark + seconds(pick.tpot_s))
        assert row["tokens/s/GPU"] == f"{mark}{pick.throughput_tokens_per_s_per_device:.0f}"
        assert (row["SLO"], row["busy"]) == (f"{pick.slo_share:.0%}", f"{pick.load_share:.0%}")
    print_table(a, False)
    assert "~: not simulated, but by formulas that may be too fast at this load." in capsys.readouterr().out


def test_limits_that_nothing_keeps_have_the_nearest_configuration(capsys) -> None:
    load = {"clients": 200, "input_len": 1024, "output_len": 100, "slo": "ttft:300,tpot:30"}
    a = advise("qwen3-8b", "l40s", gpus=1, draft=[], **load)
    assert a.chosen is None
    assert a.nearest
    (row,) = table(a, capsys)
    pick = a.nearest.pick
    assert (row["row"], row["running"], row["TPOT"]) == ("nearest", str(pick.batch), seconds(pick.tpot_s))


def test_a_faster_choice_for_nobody_who_reads_is_named(capsys) -> None:
    """It gives each sequence less than ten tokens per second."""
    a = advise("gpt-oss-120b", "dgx-spark", tp=(2,), context=32768)
    (row,) = (row for row in table(a, capsys) if row["row"] == "no TPOT bound")
    assert (row["batch"], row["TPOT"]) == (str(a.unbounded.batch), seconds(a.unbounded.tpot_s))


def test_a_model_that_does_not_fit_has_no_fronts(capsys) -> None:
    print_fronts(advise("llama-3.1-405b", "h100", tp=(1,), context=8192))
    assert capsys.readouterr().out == ""
