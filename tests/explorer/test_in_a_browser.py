"""The page in a real browser: it says what whatif says."""

import contextlib
import itertools
import json
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from nbformat import v4

import perfmodel as pm
from perfmodel import cli
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.text import seconds
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.explorer.exploration import Exploration
from perfmodel.explorer.page import page, payload
from perfmodel.plots.palette import PALETTES
from perfmodel.speculation import Workload, predict
from tests.explorer.headless import Browser
from tests.explorer.small import ROOT, ROUNDING, of_pass, queries, written
from tests.scripts import of_docs

ROWS = {**{word: term for term, word in LIMITERS.items()}, "lower": "lower_s", "predicted": "predicted_s"}
"""First word of a row of the breakdown -> what it shows of a pass."""


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "page.html"
    written(path)
    browser.open(path)
    return browser


def test_a_window_that_becomes_as_narrow_as_a_phone_gets_the_phone_s_map(opened: Browser) -> None:
    wide = opened.run("map.viewBox.baseVal.width")
    metrics = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
    opened.ask("Emulation.setDeviceMetricsOverride", width=390, **metrics)
    deadline = time.monotonic() + 20
    narrow = wide
    while narrow == wide:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        with contextlib.suppress(AssertionError):  # the page leaves while it is asked
            narrow = opened.run("document.getElementById('map').viewBox.baseVal.width")
    assert narrow < wide


def on_the_site(output: str) -> str:
    """What the site shows of a notebook whose only cell has this output."""
    cell = v4.new_code_cell(outputs=[v4.new_output("display_data", {"text/html": output})])
    markdown, _ = of_docs("hooks").shown(v4.new_notebook(cells=[cell]), "a")
    return str(markdown)


@pytest.mark.parametrize("as_shown", [str, on_the_site])
def test_a_notebook_shows_the_page_in_a_frame(
    browser: Browser, tmp_path: Path, as_shown: Callable[[str], str]
) -> None:
    shown_in = tmp_path / "notebook.html"
    small = pm.explore("llama-3.1-8b", "a100", batch="1,8", context="2k,32k", alpha=0.8)
    shown_in.write_text(as_shown(small._repr_html_()), encoding="utf-8")
    browser.open(shown_in)
    frame = browser.run(
        "document.querySelector('iframe').contentDocument.getElementById('speedup').textContent"
    )
    assert re.fullmatch(r"\d\.\d\dx", frame)
    assert browser.complaints == []


def spellings(form: Callable[..., str], *values: float) -> set[str]:
    """How numbers may read after they were kept in 32 bits: as they are, or as their neighbours within
    `ROUNDING`.
    """
    near = ([value * (1 - ROUNDING), value, value * (1 + ROUNDING)] for value in values)
    return {form(*each) for each in itertools.product(*near)}


def shown(browser: Browser) -> dict[str, Any]:
    """What whatif answers to the question that the page says it shows; the page must show the same."""
    words = shlex.split(browser.text("command"))
    assert words[:2] == ["perfmodel", "whatif"]
    flags = dict(zip(words[2::2], words[3::2], strict=True))
    answer = whatif(**{flag[2:].replace("-", "_"): value for flag, value in flags.items()}).as_dict()
    assert browser.text("speedup") in spellings("{:.2f}x".format, answer["speedup"])
    query = answer["query"]
    room = answer["memory"]
    point = f"batch {query['batch']}, context {query['context']:,}, gamma {query['gamma']}"
    assert point in browser.text("subject")
    names, texts = (browser.texts(f"#facts {kind}") for kind in ("dt", "dd"))
    facts = dict(zip(names, texts, strict=True))
    rate = lambda *both: f"{seconds(both[0])} baseline, {seconds(both[1])} speculating"  # noqa: E731
    assert facts["time per token"] in spellings(rate, answer["ar_tpot_s"], answer["tpot_s"])
    best = answer["gamma_optimal"]
    assert facts["best gamma"] in spellings(
        lambda gain: f"{best} ({gain:.2f}x)", answer["speedup_at_gamma_optimal"]
    )
    assert facts["memory"].startswith("fits" if room["fits"] else "does not fit")
    assert facts["memory"].endswith(
        f"largest batch {room['max_batch']:,} ({room['ar_max_batch']:,} baseline)"
    )
    assert facts["calibration"] == f"{answer['calibration']['name']} ({answer['calibration']['kind']})"
    assert browser.run("document.getElementById('verdict').className") == answer["verdict"]
    if query["gamma"]:
        about = re.fullmatch(r"about ([\d,]+) at gamma (\d+)", facts["break-even context"])
        if about:  # read between the grid's contexts
            assert int(about[2]) == answer["query"]["gamma"]
            assert float(about[1].replace(",", "")) == pytest.approx(
                answer["inflection"]["break_even_context"], rel=0.1
            )
        interval = spellings("({:.2f} to {:.2f}, 90 % interval)".format, *answer["speedup_interval"])
        assert browser.text("interval") in interval
        lines = "[...document.querySelectorAll('#terms tr, #totals tr')]"
        cells = browser.run(f"{lines}.map((r) => [...r.cells].map((e) => e.textContent))")
        passes = [answer[name] for name in ("target_step", "draft_step", "verify_step")]
        rows = {row[0].split(" ")[0]: row[1:] for row in cells}
        for name, field in ROWS.items():
            for cell, one in zip(rows[name][:3], passes, strict=True):
                assert cell in spellings(seconds, of_pass(one)[field]), name
        limited = [LIMITERS[one["limiter"]] if one["predicted_s"] else "" for one in passes]
        assert rows["limited"][:3] == limited
        assert rows["outside"][3] in spellings(seconds, answer["overhead_s"])
        assert rows["predicted"][3] in spellings(
            seconds, answer["tpot_s"] * answer["acceptance"]["tokens_per_iteration"]
        )
    return answer


LIGHT = PALETTES["light"]


def test_the_page_has_the_colours_of_the_pictures() -> None:
    folder = ROOT / "perfmodel" / "explorer"
    script = (folder / "map.js").read_text(encoding="utf-8")
    for theme, palette in PALETTES.items():
        _, _, ramps = script.partition(f"const {theme.upper()}_PAGE = {{")
        ramps, _, _ = ramps.partition("};")
        for name, ramp in (("slower", palette.below), ("faster", palette.above)):
            assert f"{name}: {json.dumps(ramp)}.map(rgbOf)," in ramps
        assert f'undrafted: rgbOf("{palette.pale}"),' in ramps
    style = (folder / "page.css").read_text(encoding="utf-8")
    for variable in ("baseline", "draft", "verify", "outside"):
        assert f"--{variable}: {LIGHT.stages['overhead' if variable == 'outside' else variable]};" in style


@pytest.mark.parametrize("scheme", PALETTES)
def test_a_little_slower_and_a_little_faster_are_distinguishable(
    browser: Browser, tmp_path: Path, scheme: str
) -> None:
    path = tmp_path / "page.html"
    written(path)
    browser.open(path, scheme=scheme)
    shown = {speedup: np.array(browser.run(f"heat({speedup})")) for speedup in (0.6, 0.98, 1.02, 2.5)}
    (red, _, blue), (more_red, _, more_blue) = shown[0.98], shown[1.02]
    assert red - blue >= 30
    assert more_blue - more_red >= 25
    page_colour = np.array(to_rgb(PALETTES[scheme].page)) * 255
    for near, far in ((0.98, 0.6), (1.02, 2.5)):  # near break even, a colour is close to that of the page
        assert np.abs(shown[near] - page_colour).sum() < np.abs(shown[far] - page_colour).sum()


@pytest.fixture
def of_two_stacks(browser: Browser, tmp_path: Path) -> Browser:
    """The page of the site, whose combinations do not all exist: its second stack has one model and two
    devices.
    """
    path = tmp_path / "stacks.html"
    path.write_text(page(payload(Exploration(), of_docs("hooks").MAGICDEC)), encoding="utf-8")
    browser.open(path)
    return browser


def select(browser: Browser, control: str, value: str) -> None:
    """Choose an option as a person does. A disabled one cannot be chosen."""
    of = f"document.getElementById('{control}')"
    code = (
        f"[...{of}.options].find((one) => one.value === {json.dumps(value)} && !one.disabled).selected = true"
    )
    browser.run(f"{code}; {of}.dispatchEvent(new Event('change', {{ bubbles: true }}))")


def enabled(browser: Browser, control: str) -> list[str]:
    return browser.texts(f"#{control} option:enabled")


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
class TestInABrowser:
    def test_it_opens_from_disk_and_asks_for_nothing_else(self, opened: Browser) -> None:
        shown(opened)
        assert opened.complaints == []
        assert [url for url in opened.requests if not url.endswith("/page.html")] == []
        assert opened.run("document.documentElement.scrollWidth <= window.innerWidth")

    def test_it_opens_where_speculation_pays_with_a_draft_that_an_engine_runs(
        self, browser: Browser, tmp_path: Path
    ) -> None:
        path = tmp_path / "drafts.html"
        assert cli.run(["explore", "-m", "llama-3.1-8b", "--hardware", "a100", "-o", str(path)]) == 0
        browser.open(path)
        assert float(browser.text("speedup").removesuffix("x")) > 1.0
        facts = dict(zip(browser.texts("#facts dt"), browser.texts("#facts dd"), strict=True))
        assert facts["runs in"].startswith("vLLM >=")
        assert "vocabulary" not in browser.text("notes")
        assert "beyond" not in browser.text("notes")  # the context is one that the models have
        assert "" not in browser.texts("#cell-texts text")  # grey cells have their number
        select(browser, "method", "streamingllm:512")
        slider = "document.getElementById('gamma')"
        browser.run(f"{slider}.value = 2; {slider}.dispatchEvent(new Event('input'))")
        assert "no engine runs this draft" in browser.text("notes")

    def test_it_opens_on_the_draft_that_was_asked_for(self, browser: Browser, tmp_path: Path) -> None:
        path = tmp_path / "ngram.html"
        ask = ["explore", "-m", "llama-3.1-8b", "--hardware", "h100", "--draft", "ngram", "--gamma", "3"]
        assert cli.run([*ask, "-o", str(path)]) == 0
        browser.open(path)
        assert "draft: ngram;" in browser.text("subject")
        assert browser.texts("#method option") == ["ngram", "eagle3"]
        assert shown(browser)["query"]["draft"] == "ngram"
        facts = dict(zip(browser.texts("#facts dt"), browser.texts("#facts dd"), strict=True))
        assert facts["cost ratios"].startswith("draft/target 0.00, ")
        assert "0 draft steps per iteration" in browser.text("breakdown-at")
        assert set(browser.texts("#terms td:nth-child(3), #totals td:nth-child(3)")) == {"0 us", ""}

    def test_it_opens_on_the_kv_method_that_was_asked_for(self, opened: Browser) -> None:
        assert "draft: the target itself, streamingllm:512;" in opened.text("subject")

    def test_a_cell_beyond_the_context_of_the_model_is_hatched(self, opened: Browser) -> None:
        select(opened, "model", "qwen3-30b-a3b")
        fills = opened.run("state.cells[0].map(({ hatch }) => hatch.getAttribute('fill'))")
        assert opened.run("content.context") == [2048, 32000, 102400]
        assert [fill == "url(#hatch)" for fill in fills] == [False, False, True]
        assert opened.run("state.surface.fits(0, 2, 1)")

    def test_a_flag_of_the_command_is_on_one_line(self, browser: Browser, tmp_path: Path) -> None:
        path = tmp_path / "narrow.html"
        written(path)
        browser.open(path, width=390)
        lines = browser.run("[...document.querySelectorAll('#command span')].map((e) => e.offsetHeight)")
        assert len(lines) > 10
        assert len(set(lines)) == 1

    def test_a_button_copies_the_command(self, opened: Browser) -> None:
        opened.run("document.getElementById('copy').click()")
        opened.run("new Promise((done) => setTimeout(done, 300))")
        assert opened.text("copy") == "copied"

    def test_a_slider_moved_by_key_reads_as_the_engine_answers(self, opened: Browser) -> None:
        for axis in ("batch", "context"):  # where drafting pays off at both rates
            opened.focus(axis)
            opened.press("End")
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
        assert corner["query"]["batch"] == 1
        assert corner["query"]["context"] == 102400
        opened.focus("alpha")
        opened.press("Home")
        assert shown(opened)["speedup"] < 1

    def test_the_mouse_reads_a_cell_and_a_click_stays_there(self, opened: Browser) -> None:
        box = opened.run("state.cells[2][2].colour.getBoundingClientRect().toJSON()")
        x = box["x"] + 0.9 * box["width"]
        y = box["y"] + 0.9 * box["height"]
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

    def test_every_cell_is_what_the_engine_predicts(self, opened: Browser, content: dict[str, Any]) -> None:
        for number, alpha, gamma in ((0, 0.8, None), (3, 1.0, 2), (5, 0.35, None), (7, 0.0, 6)):
            code = f"new Surface(content, arrays, {number}).map({alpha}, {json.dumps(gamma)})"
            cells = opened.run(code)
            _, query = next(queries(content, content["cases"][number]))
            scenario = resolve(Query(**{**query.as_dict(), "alpha": alpha, "gamma": None}))
            batch = np.array(content["batch"])[:, None]
            context = np.array(content["context"])[None, :]
            best = predict(scenario, Workload.of(batch, context), 6)
            gammas = np.array([[cell["gamma"] for cell in row] for row in cells])
            assert np.array_equal(
                gammas, best.gamma_optimal if gamma is None else np.full_like(gammas, gamma)
            )
            speedups = np.array([[cell["speedup"] for cell in row] for row in cells])
            expected = predict(scenario, Workload.of(batch, context, gammas), 6).speedup
            assert speedups == pytest.approx(np.where(gammas == 0, 1.0, expected), rel=1e-6)

    def test_every_combination_that_exists_opens_and_no_other(self, of_two_stacks: Browser) -> None:
        at = of_two_stacks
        opened = []
        for model in at.texts("#model option"):
            select(at, "model", model)
            for device in enabled(at, "device"):
                select(at, "device", device)
                for method in enabled(at, "method"):
                    select(at, "method", method)
                    query = shown(at)["query"]
                    assert query["model"] == model
                    assert query["hardware"] in device
                    assert f" {method} " in at.text("command")
                    opened.append((model, device, method))
        assert len(set(opened)) == len(opened) == at.run("content.cases.length")
        self_drafts = [method for _, _, method in opened if ":" in method]
        assert len(self_drafts) == 3 * 4 * 3 + 2 * 3
        assert (
            {"eagle3", "mtp", "ngram"} >= {method for _, _, method in opened if ":" not in method} > {"ngram"}
        )
        assert at.complaints == []

    @pytest.mark.parametrize("given", ["7", "-1", ""])
    def test_an_impossible_acceptance_is_refused_in_words(self, opened: Browser, given: str) -> None:
        opened.focus("alpha-exact")
        field = "document.getElementById('alpha-exact')"
        opened.run(f"{field}.value = '{given}'; {field}.dispatchEvent(new Event('input'))")
        assert opened.text("alpha-refused") == "A number from 0 to 1; the page shows 0.8."
        assert opened.run(f"{field}.getAttribute('aria-invalid')") == "true"
        opened.run(f"{field}.blur()")
        assert opened.text("alpha-refused") == ""
        assert shown(opened)["acceptance"]["alpha"] == 0.8

    def test_the_break_even_line_lies_where_the_engine_breaks_even(
        self, browser: Browser, tmp_path: Path
    ) -> None:
        path = tmp_path / "fine.html"
        axes = (
            "--batch",
            "16,64",
            "--context",
            "8000..24000+500",
            "--gamma",
            "2",
            "--hardware",
            "a100",
            "--engine",
            "magicdec",
        )
        written(path, *axes)
        browser.open(path)
        for place, batch in enumerate((16, 64)):
            break_even = browser.run(f"state.surface.breakEven(0.8, {place}, 2)")
            query = Query(
                "llama-3.1-8b",
                "a100",
                batch,
                8000,
                gamma=2,
                tp=4,
                draft_kv="streamingllm:512",
                alpha=0.8,
                engine="magicdec",
            )
            exact = whatif(query).inflection.break_even_context
            assert 8000 < exact < 24000
            assert break_even == pytest.approx(exact, rel=1e-3)
        assert len(browser.run("document.getElementById('break-even').getAttribute('d')")) > 20
