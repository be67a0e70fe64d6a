"""Reads from a ``config.json`` which projections add biases."""

from perfmodel.specs.huggingface.families import Family
from perfmodel.specs.huggingface.keys import Keys


def biases_of(keys: Keys, family: Family) -> dict[str, bool]:
    """Fields of ModelSpec that say whether QKV, the output projection and the MLP add biases.

    Only the keys that the family's rules name have an effect. Raises InputError if a file states biases that
    its architecture does not have (rule `unbiased`).
    """
    if "use_bias" in family.rules:
        return dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), keys.flag("use_bias", True))
    attention = keys.flag("attention_bias", "bias_default" in family.rules)
    mlp = keys.flag("mlp_bias", False)
    if "unbiased" in family.rules and (attention or mlp):
        raise keys.bad("attention_bias" if attention else "mlp_bias", "false for this architecture")
    all_projections = attention and "attention_bias" in family.rules
    qkv_only = attention and "attention_bias_of_qkv" in family.rules
    return {
        "qkv_bias": all_projections or qkv_only,
        "output_bias": keys.flag("attention_out_bias", all_projections),
        "mlp_bias": mlp and "mlp_bias" in family.rules,
    }
