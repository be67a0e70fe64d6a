"""Whether a draft keeps the weight formats of its own checkpoint beside those of the target."""

from perfmodel.specs import serving_engines
from perfmodel.specs.models.conversions import CONVERSIONS


def keeps_own_format(engine: str | None, target_named: bool) -> bool:
    """Whether a draft whose formats are not given has those of its own checkpoint.

    An engine that serves checkpoints as they are reads the formats of each from its own config.json (vLLM,
    get_draft_quant_config of model_executor/models/utils.py). For an engine that converts checkpoints, and in
    the decoders of research, a draft is quantised like its target.

    engine: its word, None for a calibration of no engine. target_named: whether the question names the
    formats of the target. Without them, only a conversion of drafts too (`Conversion.drafts_too`) quantises.
    """
    serving = serving_engines().get(engine or "")
    if serving is None:
        return not target_named
    if serving.conversion is None:
        return True
    return not (target_named or CONVERSIONS[serving.conversion].drafts_too)
