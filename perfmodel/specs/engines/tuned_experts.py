"""Which experts an engine runs with kernels that also route and sort their tokens: ``tuned_experts`` in
``hardware/engines/<word>.yaml``.

For other experts, `expert_layer_s` adds the time of the kernels around them, which the tables of experts do
not contain.
"""

from perfmodel.specs.boundary.frozen import Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.attention import Span
from perfmodel.specs.engines.engines import architecture_of


class TunedExperts(Span):
    """Experts with such kernels by default in a range of versions; an omitted field sets no condition.

    - formats: formats of the experts' weights.
    - architectures: model types (``model_type``).
    - device: class of the device (`architecture_of`).
    """

    formats: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    device: str = ""
    source: Text

    def fits(self, form: str, architecture: str, gpu: GPUSpec, version: str) -> bool:
        """Whether experts in this format, of this model type and on this device have such kernels."""
        return (
            self.holds(version)
            and (not self.formats or form in self.formats)
            and (not self.architectures or architecture in self.architectures)
            and self.device in ("", architecture_of(gpu))
        )
