"""Which experts an engine runs by kernels that also route and sort their tokens: ``tuned_experts`` in
``hardware/engines/<word>.yaml``.

Other experts have the cost of default flags (`expert_layer_s`): kernels around them that the tables of
experts do not hold.
"""

from perfmodel.specs.boundary.frozen import Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.attention import Span
from perfmodel.specs.engines.engines import architecture_of


class TunedExperts(Span):
    """Experts with such kernels by default in a range of versions; an omitted field is no condition.

    formats: of the experts' weights. architectures: of the model (``model_type``). device: class of the
    device (`architecture_of`).
    """

    formats: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    device: str = ""
    source: Text

    def fits(self, form: str, architecture: str, gpu: GPUSpec, version: str) -> bool:
        """Whether these are experts in a format, of a model, on a device."""
        return (
            self.holds(version)
            and (not self.formats or form in self.formats)
            and (not self.architectures or architecture in self.architectures)
            and self.device in ("", architecture_of(gpu))
        )
