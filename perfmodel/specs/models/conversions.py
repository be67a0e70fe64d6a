"""How a checkpoint is converted for engines that have formats of their own: what a question without weights
means there, and the format that stands for one that the engine does not have.
"""

from collections.abc import Callable, Mapping

from perfmodel.immutable import Immutable
from perfmodel.specs.models import ggml, mlx


class Conversion(Immutable):
    """The formats of one kind of file.

    usual: the weights that a question without weights is about. why: whose choice that is. converted: a
    checkpoint's own formats -> what stands for them instead. named: the engine's format for a named one, and
    whether the model has experts. is_own: the formats of a name in the engine's own words; None for others.
    drafts_too: whether drafts are converted as their target is.
    """

    usual: str
    why: str
    converted: Mapping[str, str]
    named: Callable[[str, bool], str]
    is_own: Callable[[str], str | None]
    drafts_too: bool = False

    def default(self, own: str) -> str:
        """The weights of a question that names none, from those of the checkpoint."""
        if self.is_own(own):
            return own
        return self.converted.get(own, self.usual)


CONVERSIONS = {
    "gguf": Conversion(
        ggml.USUAL_MIX, "the default of llama-server -hf", ggml.CONVERTED, ggml.in_gguf, ggml.of_mix
    ),
    "mlx": Conversion(
        mlx.USUAL_BITS,
        "what most of mlx-community is",
        mlx.CONVERTED,
        mlx.in_mlx,
        mlx.of_bits,
        drafts_too=True,
    ),
}
"""`ServingEngine.conversion` -> its formats."""
