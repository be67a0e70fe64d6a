"""Loads EAGLE-3 heads."""

import torch

from perfmodel.drafts import make_draft
from perfmodel.drafts.eagle import Eagle
from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.reading import is_folder
from perfmodel.specs import ModelSpec, Precision, kv_format, weight_format
from perfmodel.validate.decoder.checkpoint import CheckpointFolder
from perfmodel.validate.decoder.eagle import HeadModel
from perfmodel.validate.decoder.fp8 import Fp8Linear, quantise
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.pieces import head_pieces
from perfmodel.validate.decoder.weights import WeightSource, fill, source_of


def load_head(name: str, weights: str, target: Model) -> HeadModel:
    """Loads an EAGLE-3 head for a target. Its matrices are fp8 if those of the target are.

    - name: the folder of the head, or ``eagle3`` for random weights.
    - weights: see `weights.load`.

    Raises InputError for another kind of head, for more than one rank, and for the reasons of `weights.load`.
    """
    draft = head_of(name, target.spec)
    assert draft is not None
    if draft.name != "eagle3" or draft.features != 3 or target.shard.size > 1:
        raise InputError(
            f"--draft: {name}: must be an EAGLE-3 head of three features on one device to be run here"
        )
    source = source_of(draft.model, name, weights, target.device, target.dtype)
    with torch.device("meta"):
        head = HeadModel(draft.model, target.spec)
        if isinstance(target.layers[0].qkv, Fp8Linear):
            quantise(head)
    fill(head, head_pieces(head, _layer_name(source)), source)
    head.embedding = target.embedding
    to_target = _tokens_of_target(source, name, draft.model.vocab_size, target.spec)
    head.to_target = to_target.to(target.device)
    return head.eval()


def _layer_name(source: WeightSource) -> str:
    """The name of the head's layer, which differs between checkpoints."""
    if isinstance(source, CheckpointFolder) and source.whole("midlayer.hidden_norm.weight") is None:
        return "layers.0"
    return "midlayer"


def _tokens_of_target(source: WeightSource, name: str, vocab: int, target: ModelSpec) -> torch.Tensor:
    """The target's token for each of the `vocab` tokens of a head, [vocab].

    The tensor ``d2t`` of a checkpoint states the difference between the two token numbers. Without this
    tensor, they are equal. Tokens of a random head are spread over the target's vocabulary. Raises InputError
    if they are not different tokens of the target.
    """
    tokens = torch.arange(vocab)
    most = target.vocab_size
    if not isinstance(source, CheckpointFolder):
        return tokens * (most // vocab)
    offsets = source.whole("d2t")
    if offsets is not None:
        fits = offsets.shape == tokens.shape
        tokens = tokens + offsets.cpu().long() if fits else tokens[:0]
    distinct = {token for token in tokens.tolist() if 0 <= token < most}
    if len(distinct) < vocab:
        raise InputError(f"{name}: d2t: must add up to {vocab} different tokens of {target.name}'s {most}")
    return tokens


def head_of(name: str, target: ModelSpec) -> Eagle | None:
    """The EAGLE head with this name; None if the name is that of a complete model.

    - name: a folder with a config.json, or a kind of draft such as ``eagle3``.
    """
    if not name.startswith("eagle") and not is_folder(name):
        return None
    draft = make_draft(name, target, Precision(weight_format("bf16"), kv_format("bf16")), 1, parse_kv("full"))
    return draft if isinstance(draft, Eagle) else None
