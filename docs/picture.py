"""Draw docs/img/speedup.svg, the picture of the README: ``python docs/picture.py`` (needs matplotlib)."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from perfmodel.query import Query, resolve
from perfmodel.speculative import predict
from perfmodel.workload import Workload
from validate.records import published_points

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "perfmodel", "font.size": 10})
GAMMA = 2
QUERY = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, GAMMA, tp=8, draft_kv="streamingllm:512", alpha=0.81)
OUT = Path(__file__).with_name("img") / "speedup.svg"


def main() -> None:
    """Predicted speedup over batch and context, and the published measurements of the same pair as dots."""
    from matplotlib import pyplot as plt

    batch, context = np.geomspace(8, 320, 121), np.geomspace(1000, 128_000, 121)
    p = predict(resolve(QUERY), Workload.of(batch[:, None], context, GAMMA))
    figure, axes = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
    levels = np.arange(0.5, 2.75, 0.25)
    filled = axes.contourf(context, batch, p.speedup, levels, cmap="RdYlGn", extend="both")
    axes.contour(context, batch, p.speedup, [1.0], colors="black", linewidths=2)
    for point in published_points("magicdec"):
        same = (point.hardware, point.target, point.draft, point.draft_kv, point.gamma)
        if same == (QUERY.hardware, QUERY.model, QUERY.draft, QUERY.draft_kv, GAMMA):
            axes.plot(point.context, point.batch, "o", color="black", markersize=4)
            axes.annotate(
                f"{point.speedup:.2f}", (point.context, point.batch), (5, 3), textcoords="offset points", fontsize=8
            )
    axes.set(xscale="log", yscale="log", xlabel="context, tokens", ylabel="batch, sequences")
    axes.set_xticks([1000, 4000, 16000, 64000], ["1k", "4k", "16k", "64k"])
    axes.set_yticks([8, 16, 32, 64, 128, 256], ["8", "16", "32", "64", "128", "256"])
    axes.minorticks_off()
    title = (
        f"Llama-3.1-8B on 8 x A100, the draft reads 512 tokens, γ={GAMMA}. Line: break even. Dots: measured speedup."
    )
    axes.set_title(title, fontsize=9)
    figure.colorbar(filled, label="predicted speedup")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
