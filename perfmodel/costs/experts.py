"""The routed experts of one device: the work per token, and the number of experts that a pass uses."""

import math

import numpy as np

from perfmodel.costs.layout import Degrees, RackLayout
from perfmodel.immutable import Immutable
from perfmodel.operations import Floats
from perfmodel.specs import Format, ModelSpec, Precision


class Experts(Immutable):
    """The routed experts of all MoE layers: the work of one token, and the cost of reading one expert. A pass
    *touches* an expert if at least one token is routed to it.

    - num_experts: number of experts, including redundant copies.
    - popularity: shape parameter of the gamma distribution of the experts' shares of the tokens. 0 means that
      all experts are equally likely.
    - groups: number of expert-parallel groups of devices. Each expert is split among the devices of one
      group. A pass waits for the group with the most touched experts.
    - architecture: architecture of the model (``model_type`` of its ``config.json``).
    """

    form: Format
    layers: int
    kernels: int
    num_experts: int
    experts_per_token: int
    expert_weight_bytes: float
    expert_columns: float
    flops_per_token: float
    activation_bytes_per_token: float
    routed_bytes_per_token: float
    popularity: float
    groups: int
    architecture: str = ""

    @property
    def held_bytes(self) -> float:
        """Bytes of the weights of all experts that one device holds."""
        return self.num_experts / self.groups * self.expert_weight_bytes

    def touched(self, tokens: Floats) -> Floats:
        """Expected number of distinct experts to which at least one of these tokens is routed. Each token is
        assumed to be routed independently.
        """
        return touched(self.num_experts, self.experts_per_token, tokens, self.popularity)

    def fullest(self, tokens: Floats) -> Floats:
        """Expected number of experts that these tokens touch in the group with the most touched experts.

        Each of the H experts of a group is touched with probability p. The number of touched experts
        therefore has mean H p and standard deviation sqrt(H p (1 - p)). This number is assumed to be normally
        distributed (`deviations_of_largest`).
        """
        experts_of_group = self.num_experts / self.groups
        probability = self.touched(tokens) / self.num_experts
        mean = experts_of_group * probability
        deviation = np.sqrt(mean * (1.0 - probability))
        fullest = mean + deviations_of_largest(self.groups) * deviation
        return np.minimum(fullest, experts_of_group)


def deviations_of_largest(numbers: int) -> float:
    """Expected distance of the largest of G normally distributed values from their mean, in standard
    deviations.

    - numbers: G, the number of values.

    The largest value is at the quantile q = (G - 3/8) / (G + 1/4) (Blom 1958). In standard deviations above
    the mean, this quantile is 4.91 (q^0.14 - (1 - q)^0.14) (Tukey's lambda distribution).
    """
    rank = (numbers - 0.375) / (numbers + 0.25)
    return float(4.91 * (rank**0.14 - (1.0 - rank) ** 0.14))


def imbalance_of(experts: int, groups: int, spread: float) -> float:
    """Number of tokens of the group with the most tokens, divided by the mean over groups. Each group holds
    the same number of experts.

    - spread: standard deviation of the number of tokens per expert, divided by its mean.
    """
    return 1.0 + spread * deviations_of_largest(groups) / math.sqrt(experts / groups)


def touched(experts: float, per_token: float, tokens: Floats, popularity: float) -> Floats:
    """Expected number of distinct experts that t tokens touch if each token chooses k of E experts. It is
    E (1 - (1 - k/E)^t).

    If experts have unequal shares x ~ Gamma(a), an expert gets no token with probability e^(-x t). The
    expected number is then E (1 - (1 + b t)^-a). In this formula, b is such that one token touches k experts.
    For large a, the formula tends to the formula above.

    - popularity: the parameter a (see `Experts`).
    """
    if per_token == experts:
        return float(experts)
    miss = math.log1p(-per_token / experts)
    if popularity:
        b = math.expm1(-miss / popularity)
        return experts * -np.expm1(-popularity * np.log1p(b * tokens))
    return experts * -np.expm1(miss * tokens)


def experts(
    model: ModelSpec, degrees: Degrees, precision: Precision, popularity: float, layout: RackLayout
) -> Experts | None:
    """The routed experts of a model, each split among the devices of one group. The result is None for a
    model without experts.

    - popularity: see `Experts`.
    - layout: the layout over several nodes, which states the number of additional copies of experts and the
      imbalance between groups.

    If `degrees` exchange tokens, a group gets only the tokens of its own experts. Otherwise it gets all
    tokens.
    """
    moe = model.moe
    layers = model.num_moe_layers
    if not moe:
        return None
    groups = degrees.expert_groups
    imbalance = layout.imbalance
    form = precision.weights.of("experts")
    act = precision.activation_bytes
    devices_of_group = degrees.tensor_parallel // groups
    outer = moe.latent_size or model.hidden_size
    inner = moe.intermediate_size / devices_of_group
    up_matrices = model.mlp_matrices - 1
    weights = (up_matrices + 1) * outer * inner  # of one expert in one layer, like the next four counts
    biases = model.expert_params / devices_of_group - weights
    columns = up_matrices * inner + outer
    weight_bytes = weights * form.bytes_per_value + biases * act
    token_bytes = (outer + inner) * (form.input_bytes or act) + columns * act
    experts_of_token = layers * moe.experts_per_token  # in all layers
    return Experts(
        form=form,
        layers=layers,
        kernels=2 * layers,
        num_experts=moe.num_experts + layout.redundant_experts,
        experts_per_token=moe.experts_per_token,
        expert_weight_bytes=layers * weight_bytes,
        expert_columns=layers * columns,
        flops_per_token=experts_of_token * 2.0 * weights / groups * imbalance,
        activation_bytes_per_token=experts_of_token * token_bytes / groups * imbalance,
        routed_bytes_per_token=experts_of_token * outer * act / (groups if degrees.exchanges else 1),
        popularity=popularity,
        groups=groups,
        architecture=model.model_type,
    )
