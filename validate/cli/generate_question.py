"""The question of ``perfmodel validate generate``: what to decode, the draft, and the device."""

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated

from perfmodel.answers.declaration import SHARE, Argument, question
from perfmodel.answers.question.arguments import TOKENS
from perfmodel.errors import refuse
from perfmodel.kv import parse_kv
from perfmodel.reading import is_folder
from perfmodel.speculation.tree_shape import branching, widths
from perfmodel.validate.cli.arguments import DecodingQuestion
from perfmodel.validate.lm import bundled_checkpoint

if TYPE_CHECKING:
    from perfmodel.validate.decoder import ModelPair, Request

DEFAULT_BATCH = 2
DEFAULT_CONTEXT = 4096


@question
class GenerateQuestion(DecodingQuestion):
    """The texts to decode, the draft, and the device."""

    _: KW_ONLY
    model: Annotated[
        str | None,
        Argument(
            "Name of a model to run with random weights (--weights random:SEED).",
            "NAME",
            "-m",
            without=("checkpoint",),
        ),
    ] = None
    weights: Annotated[
        str | None, Argument("Source of the weights: checkpoint or random:SEED.", "SOURCE", group="Formats")
    ] = None
    draft_weights: Annotated[
        str | None,
        Argument("Weights of a separate draft model, written like --weights.", "SOURCE", group="Formats"),
    ] = None
    gamma: Annotated[int, Argument("Number of drafted tokens per iteration.", "N", "-g")] = 4
    batch: Annotated[
        int | None,
        Argument(
            "Batch size: number of sequences decoded together.",
            "N",
            "-b",
            default="all prompts, or 2 without prompts",
        ),
    ] = None
    context: Annotated[
        int | None,
        Argument(
            "Number of tokens to keep from the end of each prompt, in addition to the BOS token.",
            TOKENS,
            "-c",
            default="all; 4k without prompts",
        ),
    ] = None
    new_tokens: Annotated[
        int, Argument("Number of tokens to generate for each prompt.", TOKENS, group="Acceptance")
    ] = 128
    temperature: Annotated[float, Argument("Sampling temperature; 0 is greedy.", "T")] = 0.0
    alpha: Annotated[
        float | None,
        Argument(
            "Force this acceptance rate; without this flag, the rate is measured.",
            "RATE",
            limits=SHARE,
            group="Acceptance",
        ),
    ] = None
    tree: Annotated[
        str | None,
        Argument(
            "Draft tree, given as the number of children of a node on each level, such as 4x2x1.",
            "TREE",
            group="Draft",
            without=("alpha",),
            why="because the acceptance of a tree is observed",
        ),
    ] = None
    middle_kv: Annotated[
        str | None,
        Argument(
            "For two draft levels: KV method of the middle level (the target with a sparse cache), for "
            "which --draft drafts.",
            "METHOD[:BUDGET]",
            group="Draft",
            without=("alpha", "tree"),
            why="because the acceptance of two levels is observed",
        ),
    ] = None
    inner_gamma: Annotated[
        int,
        Argument(
            "For two draft levels: number of tokens that --draft proposes to the middle level per round.",
            "N",
            group="Draft",
        ),
    ] = 2
    hardware: Annotated[
        str | None,
        Argument("Device of the prediction. Without this flag, there is no prediction.", "NAME|PATH"),
    ] = None
    attention: Annotated[
        str,
        Argument(
            "Attention kernel: auto, math, sdpa, triton, or triton-unsplit (does not split the cache in a "
            "verification).",
            "KERNEL",
            group="Run",
        ),
    ] = "auto"
    pointwise: Annotated[
        str,
        Argument(
            "Kernels of the operations between matrix products: auto, torch or triton.", "KERNEL", group="Run"
        ),
    ] = "auto"
    draft_tp: Annotated[
        int | None, Argument("Number of ranks of a separate draft model.", "N", default="--tp", group="Draft")
    ] = None

    def check(self) -> None:
        """See `Question.check`."""
        if self.checkpoint and not is_folder(self.checkpoint):
            raise refuse("--checkpoint", None, "a folder with config.json and .safetensors", self.checkpoint)
        if self.tree and self.draft.startswith("ngram"):
            raise refuse("--tree", None, "used with a draft that runs a model", self.draft)
        if self.middle_kv:
            parse_kv(self.middle_kv, "--middle-kv")
            if self.graphs:
                raise refuse("--graphs", None, "used without --middle-kv", "both")

    def request(self, kind: str) -> "Request":
        """The request to the decoder.

        - kind: the kind of draft.
        """
        from perfmodel.validate.decoder import Request, Sampling, scripted_weights

        parents = None
        gamma = self.gamma
        if self.tree is not None:
            parents = branching(self.tree)
            gamma = len(widths(parents)) - 1
        script = None
        if self.alpha is not None:
            script = tuple(scripted_weights(self.alpha, self.gamma))
        return Request(
            batch=self.batch or DEFAULT_BATCH,
            context=self.context or DEFAULT_CONTEXT,
            new_tokens=self.new_tokens,
            gamma=gamma,
            draft=kind,
            sampling=Sampling(self.temperature, self.top_p, self.top_k),
            script=script,
            attention=self.attention,
            pointwise=self.pointwise,
            kv_dtype=self.kv_dtype,
            tree=parents,
            middle_kv=self.middle_kv,
            inner_gamma=self.inner_gamma if self.middle_kv else 0,
        )

    def pair(self) -> "ModelPair":
        """The target and the draft that the question names."""
        from perfmodel.validate.decoder import ModelPair

        return ModelPair(
            target=self.checkpoint or self.model or bundled_checkpoint(),
            weights=self.weights,
            draft=self.draft,
            draft_weights=self.draft_weights,
            device=self.device,
            dtype=self.dtype,
            tp=self.tp,
            draft_tp=self.draft_tp,
            kv_dtype=self.kv_dtype,
        )
