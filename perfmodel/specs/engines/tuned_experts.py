"""The experts that an engine runs with kernels that also route and sort their tokens. These facts are read
from ``tuned_experts`` in ``hardware/engines/<word>.yaml``.

For other experts, the constant `expert_layer_s` adds the time of the surrounding kernels, which the tables of
experts do not contain.
"""

from perfmodel.specs.boundary.frozen import Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.attention import Span
from perfmodel.specs.engines.engines import architecture_of


class TunedExperts(Span):
    """A condition under which experts have such kernels by default, for a range of versions. A field that is
    left out sets no condition.

    - formats: formats of the experts' weights.
    - architectures: model types (``model_type``) to which the condition applies.
    - device: class of the devices to which the condition applies (`architecture_of`).
    """

    formats: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    device: str = ""
    source: Text

    def fits(self, form: str, architecture: str, gpu: GPUSpec, version: str) -> bool:
        """Whether experts with this weight format, model type and device have such kernels."""
        return (
            self.holds(version)
            and (not self.formats or form in self.formats)
            and (not self.architectures or architecture in self.architectures)
            and self.device in ("", architecture_of(gpu))
        )
