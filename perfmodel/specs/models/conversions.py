"""The conversion of checkpoints for engines with their own file formats: the default weights of a question,
and the replacements for formats that the engine does not have.
"""

from collections.abc import Callable, Mapping

from perfmodel.immutable import Immutable
from perfmodel.specs.models import ggml, mlx


class Conversion(Immutable):
    """The weight formats of one kind of file.

    - usual: the default weights of a question.
    - why: the reason for this default, in words.
    - converted: formats that replace the formats of a checkpoint, by the replaced format.
    - named: a function that returns the engine's format. Its arguments are a named format, and whether the
      model has experts.
    - is_own: a function that returns the formats of one of the engine's own names. It returns None for other
      names.
    - drafts_too: whether drafts are converted in the same way as their target.
    """

    usual: str
    why: str
    converted: Mapping[str, str]
    named: Callable[[str, bool], str]
    is_own: Callable[[str], str | None]
    drafts_too: bool = False

    def default(self, own: str) -> str:
        """The weights for a question that names none, given the weights of the checkpoint."""
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
"""The formats of each kind of file, by the value of `ServingEngine.conversion`."""
