"""EAGLE-3 heads against the head run densely over whole texts, and against plain decoding."""

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from perfmodel.validate.decoder import Model, Request, Sampling, make_decoder, start_random
from perfmodel.validate.decoder.drafts import ModelDrafter
from perfmodel.validate.decoder.eagle import Features, HeadModel
from perfmodel.validate.decoder.heads import load_head
from tests.refusals import refused
from tests.validate.decoder.dense import causal
from tests.validate.decoder.test_graphs import eager_and_replayed
from tests.validate.tiny_model import tiny_spec

NEW = 24
GAMMA = 3


@pytest.fixture(scope="module")
def deep(make_model: Callable[..., Model]) -> Model:
    return make_model(num_hidden_layers=8)


@pytest.fixture(scope="module")
def head(deep: Model) -> HeadModel:
    """Random, with a vocabulary of its own; its output is near enough to the target's to be right now and
    then.
    """
    loaded = load_head("eagle:features=3,vocab=40", "random:0", deep)
    for number, parameter in enumerate(loaded.parameters()):
        parameter.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(number))
    loaded.to_target = torch.arange(40) + 11
    return loaded


def dense(head: HeadModel, target: Model, text: list[int], drafted: list[int]) -> torch.Tensor:
    """Distributions [drafted, vocab] that the tokens after a text are drawn from, all pairs run anew each
    time.
    """
    features = Features(head.features.layers)
    rows = list[torch.Tensor]()
    positions = torch.arange(len(text) - 1)[None]
    target(torch.tensor([text[:-1]]), positions, causal, tap=features)
    projected = head.project(features.take(len(text) - 1))
    tokens = text[1:]
    for token in drafted:
        head.give(projected, torch.zeros(1, dtype=torch.int64))
        positions = torch.arange(len(tokens))[None]
        hidden = head(torch.tensor([tokens]), positions, causal)
        last = head.logits(hidden)[0, -1]
        rows.append(last.softmax(-1))
        tokens = [*tokens, token]
        projected = torch.cat((projected, head.output[:, -1:]), 1)
    return torch.stack(rows)


@torch.inference_mode()
def test_drafts_are_drawn_from_what_the_head_says_run_densely(deep, head, prompts) -> None:
    """Whatever was accepted (here by a script), in ragged batches, from a prompt of one token on."""
    request = Request(4, 70, NEW, GAMMA, "model", sampling=Sampling(1.0), script=(1, 1, 1, 1))
    decoder = make_decoder(deep, request, head)
    state = decoder.start(prompts, NEW)
    for _ in range(6):
        decoder.propose(state)  # nothing is committed by a proposal
        drafted, probs = decoder.propose(state)
        for row, text in enumerate(state.tokens.tolist()):
            known = text[: state.length[row]]
            wanted = dense(head, deep, known, drafted[row].tolist())
            torch.testing.assert_close(probs[row], wanted, rtol=1e-9, atol=1e-12)
        decoder.iterate(state)
    assert all(state.histogram.sum(0))


def test_outputs_are_those_of_plain_decoding(deep, head, prompts) -> None:
    plain = make_decoder(deep, Request(4, 70, NEW)).generate(prompts, NEW)
    for sampling in (Sampling(), Sampling(0.8)):
        request = Request(4, 70, NEW, GAMMA, "model", sampling=sampling)
        out = make_decoder(deep, request, head).generate(prompts, NEW)
        assert [len(row) for row in out.tokens] == [NEW] * 4
        assert sampling.temperature or out.tokens == plain.tokens
    assert min(map(sum, out.histograms)) > 0


@torch.inference_mode()
def test_an_iteration_can_be_replayed(deep, head, prompts) -> None:
    request = Request(4, 70, 50, GAMMA, "model", sampling=Sampling(0.8))
    eager, replayed = eager_and_replayed(deep, head, request, prompts)
    assert eager == replayed


@torch.inference_mode()
def test_a_start_without_a_prefill(deep, head) -> None:
    """The head has no pair of the newest token yet."""
    request = Request(2, 40, NEW, GAMMA, "model", script=(0, 0, 1, 0))
    decoder = make_decoder(deep, request, head)
    state = start_random(decoder, 40, NEW)
    lengths = [cache.lengths.tolist() for cache in decoder.caches]
    assert lengths == [[40, 40], [39, 39]]
    decoder.iterate(state)


CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 1,
    "vocab_size": 61,
    "draft_vocab_size": 40,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


def of_the_layer(head) -> dict[str, torch.Tensor]:
    """The tensors of a head's only layer, as its authors name them."""
    layer = head.layers[0]
    q, k, v = layer.qkv.weight.split((32, 16, 16))
    gate, up = layer.mlp.gate_up.weight.chunk(2)
    return {
        "input_layernorm.weight": head.embedding_norm,
        "hidden_norm.weight": layer.attention_norm,
        "self_attn.q_proj.weight": q,
        "self_attn.k_proj.weight": k,
        "self_attn.v_proj.weight": v,
        "self_attn.o_proj.weight": layer.output.weight,
        "mlp.gate_proj.weight": gate,
        "mlp.up_proj.weight": up,
        "mlp.down_proj.weight": layer.mlp.down.weight,
        "post_attention_layernorm.weight": layer.mlp_norm,
    }


@pytest.mark.parametrize("layer", ["midlayer", "layers.0"])
def test_a_folder_is_read_under_either_name(deep, head, tmp_path, layer) -> None:
    """As EAGLE's authors and as speculators write it; offsets say which of the target's tokens are
    drafted.
    """
    tensors = {
        "fc.weight": head.project.weight,
        "norm.weight": head.final_norm,
        "lm_head.weight": head.head,
        "d2t": torch.full((40,), 11, dtype=torch.int64),
    }
    tensors |= {f"{layer}.{name}": tensor for name, tensor in of_the_layer(head).items()}
    tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    loaded = load_head(str(tmp_path), "checkpoint", deep)
    assert torch.equal(loaded.to_target, head.to_target)
    built = dict(head.named_parameters())
    theirs = dict(loaded.named_parameters())
    assert built.keys() == theirs.keys()
    assert all(torch.equal(built[name], theirs[name]) for name in built)
    for offsets in (None, [21] * 40, [22] * 40, [-1] * 40, [1] + [0] * 39, [0] * 39):
        tensors |= {} if offsets is None else {"d2t": torch.tensor(offsets)}
        kept = {name: tensor for name, tensor in tensors.items() if offsets or name != "d2t"}
        save_file(kept, tmp_path / "model.safetensors")
        if offsets in (None, [21] * 40):
            first = load_head(str(tmp_path), "checkpoint", deep).to_target[0]
            assert first == (offsets or [0])[0]
        else:
            refused(
                "d2t: must add up to 40 different tokens of tiny's 61",
                load_head,
                str(tmp_path),
                "checkpoint",
                deep,
            )


def test_a_head_that_drafts_in_one_pass_is_not_run(deep, tmp_path) -> None:
    """P-EAGLE has three features too."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"ptd_token_id": 60}))
    refused("must be an EAGLE-3 head", load_head, str(tmp_path), "random:0", deep)


def test_what_is_not_run_is_refused(deep, head, target) -> None:
    for name in ("eagle", "eagle3:features=2", "eagle3:features=4"):
        refused(
            f"--draft: {name}: must be an EAGLE-3 head of three features", load_head, name, "random:0", deep
        )
    divided = SimpleNamespace(spec=deep.spec, shard=SimpleNamespace(size=2))
    refused("on one device to be run here", load_head, "eagle3", "random:0", divided)
    refused("takes 3 of the target's layers, and tiny has too few", load_head, "eagle3", "random:0", target)
    assert HeadModel(target.spec, tiny_spec(num_hidden_layers=3)).features.layers == (2, 1, 0)
    sparse = Request(1, 8, 8, 2, "model", "snapkv:4,window=2")
    refused("a head drafts chains over its own full cache", make_decoder, deep, sparse, head)
    request = Request(1, 8, 8, 2, "model")
    assert isinstance(make_decoder(deep, request, head).draft, ModelDrafter)
