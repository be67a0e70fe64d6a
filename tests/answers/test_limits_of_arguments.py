"""The limit of an argument is itself allowed, and what lies beyond it is refused."""

import pytest

import perfmodel as pm
from perfmodel.answers.declaration.arguments import Argument
from perfmodel.answers.readers import counts
from perfmodel.errors import InputError


@pytest.mark.parametrize(
    ("verb", "name", "allowed", "refused"),
    [
        (pm.whatif, "context_std", 577, 578),  # 1000 / sqrt(3) = 577.35
        (pm.whatif, "kv_reread", 4, 4.01),
        (pm.whatif, "batch_range", (1, 2), (2, 2)),
        (pm.whatif, "batch_range", (1, 2**40), (1, 2**40 + 1)),
        (pm.whatif, "batch_range", (1, 2), (0, 2)),
        (pm.advise, "batch", 2**20, 2**20 + 1),
        (pm.advise, "max_gamma", 1, 0),
        (pm.advise, "max_gamma", 256, 257),
        (pm.advise, "context", 2**40, 2**40 + 1),
        (pm.compare, "gamma", 1, 0),
        (pm.traffic, "input_std", 577, 578),
        (pm.traffic, "output_std", 57, 58),
        (pm.schedule, "max_gamma", 1, 0),
        (pm.schedule, "hysteresis", 1, 1.01),
        (pm.schedule, "max_batch", 4096, 4097),
    ],
)
def test_a_limit_is_itself_allowed(verb, name, allowed, refused) -> None:
    question = LEAST_ARGUMENTS[verb] | {"model": "llama-3.1-8b", "hardware": "h100"}
    verb.question(**question | {name: allowed})
    with pytest.raises(InputError, match=name):
        verb.question(**question | {name: refused})


LEAST_ARGUMENTS = {
    pm.whatif: {"batch": 4, "context": 1000, "gamma": 3},
    pm.advise: {"context": 1000},
    pm.compare: {"context": 1000},
    pm.traffic: {"input_len": 1000, "output_len": 100, "request_rate": 1},
    pm.schedule: {"context": 1000},
}


def test_as_many_values_as_are_allowed_are_read() -> None:
    limit = Argument("Batches.", read=counts, flag="--batch", most=3)
    assert limit.value("1,2,3", "batch") == (1, 2, 3)
    with pytest.raises(InputError, match="--batch: must be at most 3 values, given 4"):
        limit.value("1,2,3,4", "batch")
