"""A speedup surface that is drawn anew as its question is changed, by sliders in a notebook."""

from base64 import b64encode
from dataclasses import replace
from html import escape
from io import BytesIO
from typing import Any

from perfmodel.answers.advice.candidates import smaller_models
from perfmodel.answers.question.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.kv import methods
from perfmodel.plots.surfaces import surface
from perfmodel.plots.theme import DPI, Figure, style
from perfmodel.specs.boundary.files import bundled_names
from perfmodel.specs.models.model import load_model

DEFAULT = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32768, tp=8, draft_kv="streamingllm:512", alpha=0.8)
BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
DEGREES = (1, 2, 4, 8)
ALPHAS = tuple(percent / 100 for percent in range(30, 100))
GAMMAS = tuple(range(9))


class Sliders:
    """The widgets by name (`controls`), the picture and a line of text; `box` holds and shows them all."""

    def __init__(self, widgets: Any, start: Query) -> None:
        scenario = resolve(start)
        kv, target = scenario.draft.kv, scenario.target.name
        self.start, self.controls = start, dict[str, Any]()
        for name, label, options, value in (
            ("hardware", "device", bundled_names("gpus"), scenario.machine.gpu.name),
            ("tp", "devices", DEGREES, start.tp),
            ("model", "model", bundled_names("models"), target),
            ("draft", "draft", drafts_of(target), start.draft or "self"),
            ("method", "draft's KV", methods(), kv.name),
            ("budget", "KV budget", BUDGETS, kv.budget or 512),
            ("alpha", "α", ALPHAS, start.alpha),
            ("gamma", "γ (0: best)", GAMMAS, start.gamma or 0),
        ):
            words = isinstance(value, str)
            self.controls[name] = (widgets.Dropdown if words else widgets.SelectionSlider)(
                options=list(options) if words else sorted({*options, value}),
                value=value,
                description=label,
                style={"description_width": "5.5em"},
                layout=widgets.Layout(width="21em"),
                **({} if words else {"continuous_update": False}),
            )
        self.picture, self.message = widgets.Image(format="png"), widgets.HTML()
        rows = widgets.Box(list(self.controls.values()), layout=widgets.Layout(flex_flow="row wrap"))
        self.box = widgets.VBox([rows, self.message, self.picture])
        self.controls["model"].observe(self.follow, "value")
        for control in self.controls.values():
            control.observe(self.redraw, "value")
        self.redraw()

    def query(self) -> Query:
        """The question as the controls have it."""
        at = {name: control.value for name, control in self.controls.items()}
        kv = kv_at(at.pop("method"), at.pop("budget"))
        return replace(self.start, draft_kv=kv, **at | {"gamma": at["gamma"] or None})

    def redraw(self, change: object = None) -> None:
        """Answers and draws; a question that is refused shows its message instead."""
        drawn, said = BytesIO(), ""
        try:
            figure = _surface(self.query())
            with style():
                figure.savefig(drawn, format="png", dpi=DPI, metadata={"Software": None})
            self.picture.value = drawn.getvalue()
        except InputError as error:
            said = f"<b>{escape(str(error))}</b>"
        self.message.value, self.picture.layout.display = said, "none" if said else None

    def follow(self, change: object = None) -> None:
        """Offer the drafts of the model."""
        control, kept = self.controls["draft"], self.controls["draft"].value
        control.unobserve(self.redraw, "value")  # drawn once, as the model's own change
        control.options = drafts_of(self.controls["model"].value)
        control.value = kept if kept in control.options else "self"
        control.observe(self.redraw, "value")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The widgets, and the picture alone for viewers without widgets."""
        shown: dict[str, Any] = self.box._repr_mimebundle_(include=include, exclude=exclude)
        return shown | {"image/png": b64encode(self.picture.value).decode()}


def sliders(start: Query = DEFAULT) -> "Sliders | Figure":
    """Widgets for device, model, draft, KV method and budget, acceptance, devices and draft length over a
    surface.

    start: the first question; arguments without a widget (formats, calibration, ...) stay as in it. Its alpha
    is required. Without ipywidgets: the static figure of that question.
    """
    try:
        import ipywidgets
    except ModuleNotFoundError:
        return _surface(start)
    return Sliders(ipywidgets, start)


def _surface(query: Query) -> Figure:
    return surface(resolve(query), gamma=query.gamma, max_gamma=query.max_gamma)


def kv_at(method: str, budget: int) -> str:
    """A KV method at a budget, its other options as in its example; where it takes no budget, its example."""
    example = methods()[method].example
    head, comma, options = example.partition(",")
    return f"{method}:{budget}{comma}{options}" if ":" in head else example


def drafts_of(model: str) -> tuple[str, ...]:
    """The target itself, and every bundled model of its vocabulary with less than half its parameters."""
    return ("self", *smaller_models(load_model(model)))
