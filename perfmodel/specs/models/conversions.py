"""How a checkpoint is converted for engines with their own formats: the default weights of a question, and
the replacements for formats that the engine does not have.
"""

from collections.abc import Callable, Mapping

from perfmodel.immutable import Immutable
from perfmodel.specs.models import ggml, mlx


class Conversion(Immutable):
    """The formats of one kind of file.

    - usual: the default weights of a question.
    - why: where this default comes from, in words.
    - converted: a checkpoint's own formats -> the formats that replace them.
    - named: a function from a named format, and whether the model has experts, to the engine's format.
    - is_own: a function from a name in the engine's own words to its formats; None for other names.
    - drafts_too: whether drafts are converted as their target is.
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
