"""The explorer: its page holds the engine's numbers, is whole in one file, and says in a browser what whatif says."""

import base64
import errno
import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel import cli
from perfmodel.answers.query import Query, resolve
from perfmodel.answers.text import seconds
from perfmodel.answers.whatif import whatif
from perfmodel.costs.roofline import LIMITERS
from perfmodel.explorer import page as explore
from perfmodel.explorer.page import Exploration
from perfmodel.plots import theme
from perfmodel.speculation.chain import predict
from perfmodel.speculation.uncertainty import log_error, speedup_interval
from perfmodel.speculation.workload import Workload
from tests.explorer.headless import Browser

ROOT = Path(__file__).parents[2]
ROUNDING = 3e-7
"""Relative: the page keeps 32-bit floats, and adds up a handful of them."""
SMALL = (
    *("explore", "--model", "llama-3.1-8b,qwen3-30b-a3b", "--hardware", "a100,mi300x", "--tp", "4"),
    *("--draft-kv", "streamingllm:512,quest:1k,page=16", "--batch", "48,1,8", "--context", "2k,32000,100k"),
    *("--max-gamma", "6"),
)


def written(path: Path, *more: str) -> str:
    assert cli.run([*SMALL, "-o", str(path), *more]) == 0
    return path.read_text(encoding="utf-8")


def payload_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    return content


def array(content: dict[str, Any], number: int) -> np.ndarray[Any, Any]:
    entry = content["pool"][number]
    return np.frombuffer(base64.b64decode(entry["f32"]), "<f4").reshape(entry["shape"]).astype(float)


def value(content: dict[str, Any], number: int, *place: int) -> float:
    values = array(content, number)
    return float(values[tuple(0 if size == 1 else at for size, at in zip(values.shape, place, strict=True))])


def queries(content: dict[str, Any], case: dict[str, Any]) -> Iterator[tuple[tuple[int, int, int], Query]]:
    """Every point of a case, with the question that its flags ask."""
    words = shlex.split(case["flags"])
    given: dict[str, Any] = dict(zip((w[2:].replace("-", "_") for w in words[::2]), words[1::2], strict=True))
    given |= {name: int(given[name]) for name in ("tp", "max_gamma") if name in given}
    axes = (content["batch"], content["context"], range(case["last_gamma"] + 1))
    for place in itertools.product(*(range(len(axis)) for axis in axes)):
        b, c, g = place
        yield place, Query(**given, batch=axes[0][b], context=axes[1][c], gamma=g, alpha=0.7)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return payload_of(written(tmp_path_factory.mktemp("page") / "small.html"))


def test_the_page_holds_a_case_for_each_combination(content: dict[str, Any]) -> None:
    assert content["batch"] == [1, 8, 48]
    assert content["context"] == [2048, 32000, 102400]
    names = [(case["model"], case["hardware"], case["draft_kv"].split(":")[0]) for case in content["cases"]]
    models, devices, methods = zip(*names, strict=True)
    assert len(set(names)) == len(names) == 8 == len(set(models)) * len(set(devices)) * len(set(methods))


def of_pass(step: dict[str, Any]) -> dict[str, float]:
    """What the page holds of one pass."""
    return {"predicted_s": step["predicted_s"], "lower_s": step["lower_s"], **step["terms_s"]}


def test_every_time_is_the_engines(content: dict[str, Any]) -> None:
    for case in content["cases"][::3]:
        for place, query in list(queries(content, case))[::4]:
            alone, gamma = whatif(query).as_dict(), place[2]
            expected = [("target", "target_step", (*place[:2], 0)), ("target", "verify_step", place)]
            expected += [("draft_step", "draft_step", place)]
            for ours, theirs, at in expected:
                for term, expected_s in of_pass(alone[theirs]).items():
                    found = value(content, case[ours][term], *at)
                    assert found == pytest.approx(expected_s, rel=ROUNDING), (query, ours, term)
            if gamma:
                assert value(content, case["overhead_s"], *place) == pytest.approx(alone["overhead_s"], rel=ROUNDING)
                passes = case["draft_passes"][gamma]
                assert passes * alone["draft_step"]["predicted_s"] == pytest.approx(
                    gamma * float(predict(resolve(query), Workload.of(query.batch, query.context, gamma)).draft_s)
                )
            assert (query.batch <= value(content, case["max_batch"], *place)) == alone["memory"]["fits"]
            assert case["inflection_context"][gamma] == (alone["inflection"]["inflection_context"] if gamma else 1)
            assert case["calibration"] | alone["calibration"] == case["calibration"]


@pytest.mark.parametrize("calibration", [None, "ideal", "l40s-48gb.literature"])
def test_the_interval_is_the_engines(calibration: str | None) -> None:
    tp = 1 if calibration else 4
    query = Query("llama-3.1-8b", "h100", 1, 1, tp=tp, draft_kv="snapkv:2k", alpha=0.6, calibration=calibration)
    scenario, gammas = resolve(query), np.arange(5)
    error = log_error(scenario, np.array([[1.0], [48.0]]), np.array([[2048.0, 50000.0]]), gammas)
    for (b, batch), (c, context), gamma in itertools.product(enumerate((1, 48)), enumerate((2048, 50000)), range(5)):
        speedup = 1.5 if gamma else 1.0
        interval = speedup_interval(scenario, batch, context, gamma, speedup)
        assert (error is None) == (calibration == "ideal")
        if error is None:
            assert gamma == 0 or interval is None
        else:
            assert interval
            assert np.exp(explore.Z * error[b, c, gamma]) == pytest.approx(speedup / interval.low, rel=1e-9)


@pytest.mark.parametrize("draft", ["llama-3.2-1b", "eagle", "medusa:heads=3", "ngram", "parallel:llama-3.2-1b"])
def test_every_kind_of_draft_adds_up(draft: str) -> None:
    question = Exploration(
        model="llama-3.1-8b", hardware="a100", draft=draft, draft_kv="full", batch="1,64", context="4k,64k", tp="4"
    )
    content = json.loads(json.dumps(explore.payload(question)))
    (case,) = content["cases"]
    for (b, c, g), query in queries(content, case):
        if g:
            steps = case["draft_passes"][g] * value(content, case["draft_step"]["predicted_s"], b, c, g)
            found = predict(resolve(query), Workload.of(query.batch, query.context, g))
            rest = value(content, case["target"]["predicted_s"], b, c, g) + value(content, case["overhead_s"], b, c, g)
            assert steps + rest == pytest.approx(float(found.iteration_s), rel=ROUNDING)


def test_flags_that_are_not_as_by_default_are_asked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--kv-dtype", "fp8", "--memory-fraction", "0.5", "--batch-range", "8..64", "--draft-tp", "2")
    case = payload_of(written(tmp_path / "more.html", *more))["cases"][0]
    for flag, given in zip(more[::2], more[1::2], strict=True):
        assert f"{flag} {given}" in case["flags"]
    capsys.readouterr()
    point = ("--batch", "8", "--context", "32000", "--gamma", "2", "--alpha", "0.7", "--json")
    assert cli.run(["whatif", *shlex.split(case["flags"]), *point]) == 0
    found = json.loads(capsys.readouterr().out)
    assert case["inflection_context"][2] == found["inflection"]["inflection_context"]
    assert found["query"]["kv_dtype"] == "fp8"


def test_a_published_acceptance_stands_beside_its_pair_only(content: dict[str, Any]) -> None:
    has = {(case["model"], case["draft_kv"].split(",")[0]): case["published"] for case in content["cases"]}
    assert has["llama-3.1-8b", "streamingllm:512"][1] == [
        0.81,
        "MagicDec project page, acceptance against length, PG-19",
    ]
    assert has["llama-3.1-8b", "streamingllm:512"][0] is None  # 2k: shorter than any measured
    assert not any(map(any, (found for pair, found in has.items() if pair != ("llama-3.1-8b", "streamingllm:512"))))


def test_the_page_is_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    text = written(tmp_path / "one.html")
    assert "://" not in text
    assert not re.search(
        r"<link|\bsrc\s*=|\bhref\s*=|@import|url\((?!#)|\bfetch\(|XMLHttpRequest|WebSocket|import\(", text
    )
    assert "default-src 'none'" in text
    assert not re.search(r"/\* \w+\.(css|js|json) \*/", text)  # every part has taken its place
    assert text == written(tmp_path / "again.html")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["again.html", "one.html"]


def test_what_is_named_cannot_end_the_payload() -> None:
    content = {"model": "</script><b>"}
    text = explore.page(content)
    assert payload_of(text) == content
    assert text.count("</script") == explore.page({}).count("</script")


def test_the_default_page_is_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "default.html"
    assert cli.run(["explore", "-o", str(path)]) == 0
    assert re.fullmatch(r"36 surfaces, 1\.\d MB, in .*default\.html\n", capsys.readouterr().err)
    assert path.stat().st_size < 3e6


def test_progress_is_for_terminals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "quiet.html")
    assert capsys.readouterr().err.count("surfaces") == 1
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    written(tmp_path / "shown.html")
    assert "\r0 of 8 surfaces\r1 of 8 surfaces" in capsys.readouterr().err


BAD: list[tuple[tuple[str, ...], str]] = [
    (("--model", "lama-3.1-8b"), "did you mean llama-3.1-8b"),
    (("--hardware", "a100,h10"), "did you mean h100"),
    (("--tp", "3"), "must divide"),
    (("--draft-kv", "snapkvv:512"), "did you mean snapkv"),
    (("--model", "llama-3.1-8b,llama-3.1-8b"), "is given twice"),
    (("--hardware", "a100,a100-sxm-80gb"), "is given twice"),
    (("--batch", "0"), "--batch"),
    (("--context", ""), "--context"),
    (("--batch", "1..100", "--context", "1000..50000+1000"), "at most 4096 points"),
    (("--batch", "1..64", "--context", "1000..64000+1000", "--max-gamma", "999"), "at most 5000000 points"),
    (("--alpha", "1.2"), "from 0 to 1"),
    (("--alpha", "0.5,0.6"), "one value, where its slider starts"),
    (("--gamma", "1,2"), "one value, where its slider starts"),
    (("--gamma", "0"), "auto or from 1 to 6"),
    (("--gamma", "7"), "auto or from 1 to 6"),
    (("--max-gamma", "0"), "--max-gamma"),
    (("--max-gamma", "2000"), "--max-gamma"),
    (("--accounting", "static"), "ragged"),
    (("--acceptance", "x.json"), "--alpha says where it starts"),
    (("--tokens-per-iteration", "2"), "--alpha says where it starts"),
    (("-o", "page.txt"), "ending in .html"),
    (("-o", "nowhere/page.html"), "in a folder that exists"),
]


@pytest.mark.parametrize(("more", "expected"), BAD)
def test_bad_input_is_one_line(
    more: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run([*SMALL, "-o", "page.html", *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert expected in err
    assert not list(tmp_path.iterdir())


def test_a_page_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "page.html"
    path.write_text("the old one", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert cli.run([*SMALL, "-o", str(path)]) == 2
    assert "error: --output" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "the old one"
    assert cli.run([*SMALL, "-o", str(path)]) == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]
    (tmp_path / "folder.html").mkdir()  # what a page cannot take the place of
    assert cli.run([*SMALL, "-o", str(tmp_path / "folder.html")]) == 2
    assert "error: --output" in capsys.readouterr().err
    assert {entry.name for entry in tmp_path.iterdir()} == {"page.html", "folder.html"}


# --- in a real browser


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROWS = {
    **{word: term for term, word in LIMITERS.items()},
    "lower": "lower_s",
    "predicted": "predicted_s",
}
"""First word of a row of the breakdown -> what it shows of a pass."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} on PATH (Debian: apt-get install chromium)")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "page.html"
    written(path)
    browser.open(path)
    return browser


def spellings(form: Callable[..., str], *values: float) -> set[str]:
    """How numbers may read after they were kept in 32 bits: as they are, or as their neighbours within `ROUNDING`."""
    near = ([value * (1 - ROUNDING), value, value * (1 + ROUNDING)] for value in values)
    return {form(*each) for each in itertools.product(*near)}


def shown(browser: Browser) -> dict[str, Any]:
    """What whatif answers to the question that the page says it shows; the page must show the same."""
    words = shlex.split(browser.text("command"))
    assert words[:2] == ["perfmodel", "whatif"]
    flags = dict(zip(words[2::2], words[3::2], strict=True))
    found = whatif(**{flag[2:].replace("-", "_"): value for flag, value in flags.items()}).as_dict()
    assert browser.text("speedup") in spellings("{:.2f}x".format, found["speedup"])
    query, room = found["query"], found["memory"]
    point = f"batch {query['batch']}, context {query['context']:,}, gamma {query['gamma']}"
    assert point in browser.text("subject")
    names, texts = (browser.texts(f"#facts {kind}") for kind in ("dt", "dd"))
    facts = dict(zip(names, texts, strict=True))
    assert facts["time per token"] in spellings(
        lambda baseline, drafted: f"{seconds(baseline)} baseline, {seconds(drafted)} speculating",
        found["ar_tpot_s"],
        found["tpot_s"],
    )
    best = found["gamma_optimal"]
    assert facts["best gamma"] in spellings(lambda gain: f"{best} ({gain:.2f}x)", found["speedup_at_gamma_optimal"])
    assert facts["memory"].startswith("fits" if room["fits"] else "does not fit")
    assert facts["memory"].endswith(f"largest batch {room['max_batch']:,} ({room['ar_max_batch']:,} baseline)")
    assert facts["calibration"] == f"{found['calibration']['name']} ({found['calibration']['kind']})"
    assert browser.run("document.getElementById('verdict').className") == found["verdict"]
    if query["gamma"]:
        about = re.fullmatch(r"about ([\d,]+) at gamma (\d+)", facts["break-even context"])
        if about:  # read between the grid's contexts
            assert int(about[2]) == found["query"]["gamma"]
            assert float(about[1].replace(",", "")) == pytest.approx(found["inflection"]["break_even_context"], rel=0.1)
        interval = spellings("({:.2f} to {:.2f}, 90 % interval)".format, *found["speedup_interval"])
        assert browser.text("interval") in interval
        cells = browser.run(
            "[...document.querySelectorAll('#terms tr, #totals tr')].map((r) => [...r.cells].map((e) => e.textContent))"
        )
        passes = [found[name] for name in ("target_step", "draft_step", "verify_step")]
        rows = {row[0].split(" ")[0]: row[1:] for row in cells}
        for name, field in ROWS.items():
            for cell, one in zip(rows[name][:3], passes, strict=True):
                assert cell in spellings(seconds, of_pass(one)[field]), name
        assert rows["limited"][:3] == [LIMITERS[one["limiter"]] for one in passes]
        assert rows["outside"][3] in spellings(seconds, found["overhead_s"])
        assert rows["predicted"][3] in spellings(seconds, found["tpot_s"] * found["acceptance"]["tokens_per_iteration"])
    return found


@pytest.mark.slow
def test_the_page_has_the_colours_of_the_pictures() -> None:
    folder = ROOT / "perfmodel" / "explorer"
    script = (folder / "map.js").read_text(encoding="utf-8")
    for name, ramp in (("SLOWER", theme.BELOW), ("FASTER", theme.ABOVE)):
        assert f"const {name} = {json.dumps(ramp)}.map(rgbOf);" in script
    assert f'const UNDRAFTED = rgbOf("{theme.PALE}");' in script
    style = (folder / "page.css").read_text(encoding="utf-8")
    for variable, stage in (
        ("baseline", "baseline"),
        ("draft", "draft"),
        ("verify", "verify"),
        ("outside", "overhead"),
    ):
        assert f"--{variable}: {theme.STAGES[stage]};" in style


@pytest.mark.xdist_group("browser")
class TestInABrowser:
    def test_it_opens_from_disk_and_asks_for_nothing_else(self, opened: Browser) -> None:
        shown(opened)
        assert opened.complaints == []
        assert [url for url in opened.requests if not url.endswith("/page.html")] == []
        assert opened.run("document.documentElement.scrollWidth <= window.innerWidth")

    @pytest.mark.parametrize("width", [400, 700, 1000, 1600])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_nothing_is_wider_than_its_place(self, browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
        path = tmp_path / "page.html"
        written(path)
        browser.open(path, width=width, scheme=scheme)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
        wide = "(e) => e.scrollWidth > e.clientWidth"
        assert (
            browser.run(f"[...document.querySelectorAll('th, td, dd, p, li, section > div')].filter({wide}).length")
            == 0
        )
        labels = "[...document.querySelectorAll('#axes text, #scale-ticks span')]"
        boxes = f"{labels}.map((e) => e.getBoundingClientRect().toJSON())"
        for one, two in itertools.combinations(browser.run(boxes), 2):
            beside = one["right"] <= two["left"] or two["right"] <= one["left"]
            assert beside or one["bottom"] <= two["top"] or two["bottom"] <= one["top"]
        ink, page = browser.run("['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])")
        light, dark = (page, ink) if scheme == "light" else (ink, page)
        assert min(map(int, re.findall(r"\d+", light))) > 220 > 40 > max(map(int, re.findall(r"\d+", dark)))

    @pytest.mark.parametrize("width", [400, 1000])
    def test_no_line_crosses_a_number_and_baseline_cells_are_blank(
        self, browser: Browser, tmp_path: Path, width: int
    ) -> None:
        path = tmp_path / "page.html"
        written(path, "--batch", "1..64x2", "--context", "1k..128kx2", "--gamma", "auto", "--hardware", "a100")
        browser.open(path, width=width)
        cells = browser.run("state.surface.map(state.alpha, null).flat().map((cell) => cell.gamma)")
        assert 0 in cells
        texts = browser.run("[...document.querySelectorAll('#cell-texts text')].map((e) => e.textContent)")
        assert [bool(text) for text in texts] == [gamma > 0 for gamma in cells]
        code = """(() => {
            const texts = [...document.querySelectorAll('#cell-texts text')].filter((e) => e.textContent);
            const points = ['break-even', 'inflection-line'].flatMap((id) => {
                const line = document.getElementById(id), all = line.getTotalLength();
                return Array.from({length: 2000}, (_, i) => line.getPointAtLength(all * i / 2000));
            });
            const within = (box) => ({x, y}) => x > box.x && x < box.x + box.width
                && y > box.y + 0.2 * box.height && y < box.y + 0.8 * box.height;
            return texts.filter((e) => points.some(within(e.getBBox()))).length;
        })()"""
        assert browser.run(code) == 0
        assert browser.run("document.getElementById('inflection-line').getTotalLength()") > 100

    def test_a_slider_moved_by_key_reads_as_the_engine_answers(self, opened: Browser) -> None:
        before = shown(opened)
        opened.focus("alpha")
        opened.press("ArrowRight", 9)
        after = shown(opened)
        assert after["acceptance"]["alpha"] == pytest.approx(0.89)
        assert after["speedup"] > before["speedup"]
        opened.focus("gamma")
        opened.press("ArrowRight", 3)
        assert shown(opened)["query"]["gamma"] == 3
        opened.focus("batch")
        opened.press("Home")
        opened.focus("context")
        opened.press("End")
        corner = shown(opened)
        assert (corner["query"]["batch"], corner["query"]["context"]) == (1, 102400)
        opened.focus("alpha")
        opened.press("Home")
        assert shown(opened)["speedup"] < 1

    def test_the_mouse_reads_a_cell_and_a_click_stays_there(self, opened: Browser) -> None:
        box = opened.run("state.cells[2][2].colour.getBoundingClientRect().toJSON()")
        x, y = box["x"] + 0.9 * box["width"], box["y"] + 0.9 * box["height"]
        before = shown(opened)["query"]
        opened.mouse("mouseMoved", x, y)
        hovered = shown(opened)["query"]
        assert (hovered["batch"], hovered["context"]) == (48, 102400) != (before["batch"], before["context"])
        opened.mouse("mouseMoved", 5, 5)
        assert shown(opened)["query"] == before
        opened.mouse("mousePressed", x, y)
        opened.mouse("mouseReleased", x, y)
        opened.mouse("mouseMoved", 5, 5)
        assert shown(opened)["query"] == hovered
        assert opened.text("batch-out") == "48"

    def test_another_model_device_and_method_by_key(self, opened: Browser) -> None:
        for control in ("model", "device", "method"):
            opened.focus(control)
            opened.press("ArrowDown")
        query = shown(opened)["query"]
        assert (query["model"], query["hardware"]) == ("qwen3-30b-a3b", "mi300x-192gb")
        assert query["draft_kv"].startswith("quest:1024")
        assert "transferred from " in opened.text("notes")

    def test_every_cell_is_what_the_engine_predicts(self, opened: Browser, content: dict[str, Any]) -> None:
        for number, alpha, gamma in ((0, 0.8, None), (3, 1.0, 2), (5, 0.35, None), (7, 0.0, 6)):
            code = f"new Surface(content, arrays, {number}).map({alpha}, {json.dumps(gamma)})"
            cells = opened.run(code)
            _, query = next(queries(content, content["cases"][number]))
            scenario = resolve(Query(**{**query.as_dict(), "alpha": alpha, "gamma": None}))
            batch, context = np.array(content["batch"])[:, None], np.array(content["context"])[None, :]
            best = predict(scenario, Workload.of(batch, context), 6)
            gammas = np.array([[cell["gamma"] for cell in row] for row in cells])
            assert np.array_equal(gammas, best.gamma_optimal if gamma is None else np.full_like(gammas, gamma))
            found = np.array([[cell["speedup"] for cell in row] for row in cells])
            expected = predict(scenario, Workload.of(batch, context, gammas), 6).speedup
            assert found == pytest.approx(np.where(gammas == 0, 1.0, expected), rel=1e-6)

    def test_the_published_acceptance_is_taken_at_a_click(self, opened: Browser) -> None:
        assert "0.810 (MagicDec" in opened.text("published-text")
        opened.run("document.getElementById('use-published').click()")
        assert shown(opened)["acceptance"]["alpha"] == 0.81
        assert opened.run("document.getElementById('alpha').value") == "0.81"

    def test_the_break_even_line_lies_where_the_engine_breaks_even(self, browser: Browser, tmp_path: Path) -> None:
        path = tmp_path / "fine.html"
        axes = ("--batch", "16,64", "--context", "8000..24000+500", "--gamma", "2", "--hardware", "a100",
                "--engine", "magicdec")  # fmt: skip
        written(path, *axes)
        browser.open(path)
        for place, batch in enumerate((16, 64)):
            found = browser.run(f"state.surface.breakEven(0.8, {place}, 2)")
            query = Query("llama-3.1-8b", "a100", batch, 8000, gamma=2, tp=4, draft_kv="streamingllm:512", alpha=0.8,
                          engine="magicdec")  # fmt: skip
            exact = whatif(query).inflection.break_even_context
            assert 8000 < exact < 24000
            assert found == pytest.approx(exact, rel=1e-3)
        assert len(browser.run("document.getElementById('break-even').getAttribute('d')")) > 20

    def test_the_largest_batch_fits_and_one_more_does_not(self, browser: Browser, tmp_path: Path) -> None:
        query = Query("llama-3.1-8b", "a100", 1, 100_000, gamma=2, tp=4, draft_kv="streamingllm:512", alpha=0.8)
        largest = whatif(query).memory.max_batch
        path = tmp_path / "full.html"
        axes = ("--batch", f"{largest},{largest + 1}", "--context", "100000", "--gamma", "2", "--hardware", "a100")
        written(path, *axes)
        browser.open(path)
        browser.focus("batch")
        for key, batch, fits in (("Home", largest, True), ("End", largest + 1, False)):
            browser.press(key)
            found = shown(browser)
            assert (found["query"]["batch"], found["memory"]["fits"]) == (batch, fits)
            assert ("does not fit" in browser.text("notes")) != fits

    def test_of_equal_draft_lengths_the_shorter_is_best(self, opened: Browser) -> None:
        code = "Object.assign(new Surface(content, arrays, 0), { speedup: () => 1 })"
        assert [opened.run(f"{code}.best(0.5, 0, 0, {start})") for start in (0, 1)] == [0, 1]
