"""The cache format of a question to `advise` or `schedule` about a checkpoint of the user."""

from typing import Any

from perfmodel.specs.models.stored_formats import stored_formats


def with_cache_of_checkpoint(values: dict[str, Any]) -> dict[str, Any]:
    """Sets the cache format to that of the checkpoint that `model_path` names, if the question states none.
    Engines read the format from the checkpoint.
    """
    if values["kv_dtype"] is not None or values["model_path"] is None:
        return values
    stored = stored_formats(values["model_path"])
    if stored is None or stored.kv_dtype == "bf16":
        return values
    return values | {"kv_dtype": stored.kv_dtype}
