"""Draft kinds, one file each; `make_draft` builds one from the words of a command line."""

from perfmodel.drafts.base import Draft
from perfmodel.formats import Precision, weight_format
from perfmodel.kv.base import KVMethod
from perfmodel.specs.model import ModelSpec, load_model


def make_draft(
    name: str,
    target: ModelSpec,
    target_precision: Precision,
    target_tp: int,
    kv: KVMethod,
    *,
    tensor_parallel: int | None = None,
    weights: str | None = None,
) -> Draft:
    """``self``, or the name or path of a separate model; degree and weight format default to the target's.

    Raises InputError for an unknown model.
    """
    precision = Precision(
        weight_format(weights, "--draft-weights") if weights else target_precision.weights, target_precision.kv
    )
    if name.strip().lower() == "self":
        from perfmodel.drafts.self_draft import SelfDraft

        return SelfDraft(target, kv, tensor_parallel or target_tp, precision, target_precision.weights.name)
    from perfmodel.drafts.model_draft import ModelDraft

    return ModelDraft(load_model(name, "--draft"), kv, tensor_parallel or target_tp, precision)
