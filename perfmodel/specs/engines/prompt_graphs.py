"""The passes over prompts that an engine runs as CUDA graphs. These facts are read from ``prompt_graphs`` in
``hardware/engines/<word>.yaml``.

Such a graph is cut at attention, recurrent layers and messages. The host launches only these operations and
the pieces between them, instead of every kernel.
"""

from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.attention import Span
from perfmodel.specs.engines.engines import architecture_of
from perfmodel.specs.models.model import ModelSpec


class WithoutPromptGraphs(Span):
    """A condition under which servers do not have these graphs, for a range of versions. A field that is left
    out sets no condition.

    - architectures: model types (``model_type``) to which the condition applies.
    - latent: whether the condition applies only to models with MLA.
    - device: class of the devices to which the condition applies (`architecture_of`).
    - drafts: whether the condition applies only to servers that draft.
    """

    architectures: tuple[str, ...] = ()
    latent: bool = False
    device: str = ""
    drafts: bool = False

    def fits(self, model: ModelSpec, gpu: GPUSpec, version: str, drafts: bool) -> bool:
        """Whether the condition applies to a server with these properties."""
        return (
            self.holds(version)
            and (not self.architectures or model.model_type in self.architectures)
            and (model.mla is not None or not self.latent)
            and self.device in ("", architecture_of(gpu))
            and (drafts or not self.drafts)
        )


class PromptGraphs(Span):
    """The engine versions and device vendors that have these graphs, with the exceptions.

    - latent_tokens: largest number of tokens of such a pass, for a model with MLA.
    """

    makers: tuple[str, ...]
    latent_tokens: Annotated[int, Meta(ge=1)]
    without: tuple[WithoutPromptGraphs, ...] = ()
    source: Text

    def most_tokens(self, model: ModelSpec, gpu: GPUSpec, version: str, drafts: bool) -> float:
        """Largest number of tokens of a pass over prompts that runs as a graph. The result is 0 if no such
        pass does.
        """
        if not self.holds(version) or gpu.vendor not in self.makers:
            return 0.0
        if any(case.fits(model, gpu, version, drafts) for case in self.without):
            return 0.0
        return float("inf") if model.mla is None else float(self.latent_tokens)
