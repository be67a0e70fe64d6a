"""A speedup surface that is drawn anew as its question is changed, by sliders in a notebook.

`sliders` needs ipywidgets; without it, it returns the picture of the question it was given, which no one can move.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

from perfmodel.answers.candidates import smaller_models
from perfmodel.answers.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.kv import methods
from perfmodel.plots.surfaces import surface
from perfmodel.plots.theme import style
from perfmodel.specs.files import bundled_names
from perfmodel.specs.model import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32768, tp=8, draft_kv="streamingllm:512", alpha=0.8)
BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
DEGREES = (1, 2, 4, 8)
MAX_GAMMA = 8
DPI = 160


@dataclass
class Sliders:
    """The widgets by name (`controls`), the picture and a line of text; `box` holds them all and is what is shown."""

    controls: Mapping[str, Any]
    picture: Any
    message: Any
    box: Any
    start: Query

    def query(self) -> Query:
        """The question as the controls have it."""
        at = {name: control.value for name, control in self.controls.items()}
        return replace(
            self.start,
            model=at["model"],
            hardware=at["hardware"],
            tp=at["tp"],
            draft=at["draft"],
            draft_kv=kv_at(at["method"], at["budget"]),
            alpha=at["alpha"],
            gamma=at["gamma"] or None,
        )

    def redraw(self, change: object = None) -> None:
        """Answer and draw; what cannot be asked is said instead, in one line."""
        try:
            figure = _surface(self.query())
        except InputError as error:
            self.message.value = f"<b>{escape(str(error))}</b>"
            self.picture.layout.display = "none"
            return
        self.message.value = ""
        self.picture.value = png(figure)
        self.picture.layout.display = None

    def follow(self, change: object = None) -> None:
        """Offer the drafts of the model, and draw."""
        drafts, control = drafts_of(self.controls["model"].value), self.controls["draft"]
        kept = control.value if control.value in drafts else drafts[0]
        with self.box.hold_trait_notifications():
            control.unobserve(self.redraw, "value")
            control.options, control.value = drafts, kept
            control.observe(self.redraw, "value")
        self.redraw()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The widgets, and beside them the picture alone for whoever shows no widgets."""
        shown: dict[str, Any] = self.box._repr_mimebundle_(include=include, exclude=exclude)
        return shown | {"image/png": b64encode(self.picture.value).decode()}


def sliders(start: Query = DEFAULT) -> "Sliders | Figure":
    """Widgets for device, model, draft, KV method and budget, acceptance, devices and draft length over a surface.

    start: the question at first; what has no widget (formats, calibration, ...) stays as it is there. Its alpha must
    be given. Without ipywidgets: the figure of that question.
    """
    try:
        import ipywidgets
    except ModuleNotFoundError:
        return _surface(start)
    made = _made(ipywidgets, start)
    made.controls["model"].observe(made.follow, "value")
    for name, control in made.controls.items():
        if name != "model":
            control.observe(made.redraw, "value")
    made.redraw()
    return made


def _surface(query: Query) -> "Figure":
    gamma = None if query.gamma is None else int(query.gamma)
    return surface(resolve(query), gamma=gamma, max_gamma=int(query.max_gamma))


def png(figure: "Figure") -> bytes:
    """The picture as a browser takes it."""
    out = BytesIO()
    with style():
        figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def kv_at(method: str, budget: int) -> str:
    """A KV method at a budget, its other options as in its example; where it takes no budget, its example."""
    example = methods()[method].example
    head, comma, options = example.partition(",")
    return f"{method}:{budget}{comma}{options}" if ":" in head else example


@cache
def drafts_of(model: str) -> tuple[str, ...]:
    """The target itself, and every bundled model of its vocabulary with less than half its parameters."""
    return ("self", *smaller_models(load_model(model)))


def _made(widgets: Any, start: Query) -> Sliders:
    look = {"style": {"description_width": "5.5em"}, "layout": widgets.Layout(width="21em")}
    scenario = resolve(start)

    def one_of(name: str, options: Any, value: Any, kind: Any = widgets.Dropdown) -> Any:
        extra = {"continuous_update": False} if kind is widgets.SelectionSlider else {}
        return kind(options=options, value=value, description=name, **extra, **look)

    controls = {
        "hardware": one_of("device", bundled_names("gpus"), scenario.machine.gpu.name),
        "tp": one_of("devices", DEGREES, start.tp, widgets.SelectionSlider),
        "model": one_of("model", bundled_names("models"), scenario.target.name),
        "draft": one_of("draft", drafts_of(scenario.target.name), start.draft),
        "method": one_of("draft's KV", tuple(methods()), scenario.draft.kv.name),
        "budget": one_of(
            "KV budget",
            BUDGETS,
            scenario.draft.kv.budget if scenario.draft.kv.budget in BUDGETS else 512,
            widgets.SelectionSlider,
        ),
        "alpha": widgets.FloatSlider(
            value=start.alpha, min=0.3, max=0.99, step=0.01, description="α", continuous_update=False, **look
        ),
        "gamma": widgets.IntSlider(
            value=start.gamma or 0, min=0, max=MAX_GAMMA, description="γ (0: best)", continuous_update=False, **look
        ),
    }
    picture, message = widgets.Image(format="png"), widgets.HTML()
    rows = widgets.Box(list(controls.values()), layout=widgets.Layout(flex_flow="row wrap"))
    return Sliders(controls, picture, message, widgets.VBox([rows, message, picture]), start)
