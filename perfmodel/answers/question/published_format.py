"""Finds the published checkpoint in the weight format of a question, and checks whether the devices can run
it.
"""

from perfmodel.answers.question.placement import check_blocks
from perfmodel.errors import InputError
from perfmodel.specs import serving_engine_of, weight_format
from perfmodel.specs.models.checkpoint_rows import Checkpoint
from perfmodel.specs.models.checkpoints import Reads, alike, checkpoint, main_format, read_by_all
from perfmodel.speculation import Scenario


def stored_weights(scenario: Scenario) -> str:
    """The weight format in which a checkpoint is stored. Weight-only use of a format on a device does not
    change this name.
    """
    return scenario.precision.weights.name.replace("-wo", "")


def reads_of(scenario: Scenario) -> Reads:
    """The function that says whether the engine of a scenario can load a checkpoint."""
    engine = serving_engine_of(scenario.machine.calibration)
    return read_by_all if engine is None else engine.reads


def published(model_id: str, scenario: Scenario) -> Checkpoint | None:
    """The known checkpoint of a model in the weight format of a scenario, if its engine can load it. The
    result is None if there is no such checkpoint, or if the model's own checkpoint already has this format.
    """
    weights = stored_weights(scenario)
    if main_format(scenario.target.weights) in alike(weights):
        return None
    return checkpoint(model_id, weights, scenario.machine.gpu, reads_of(scenario))


def undivided(model_id: str, scenario: Scenario) -> str | None:
    """The reason why the devices of a scenario cannot run the published checkpoint, in words. The result is
    None if they can run it, or if there is no such checkpoint.
    """
    known = published(model_id, scenario)
    if known is None:
        return None
    groups = (scenario.expert_parallel, scenario.data_parallel)
    precision = scenario.precision.replace(weights=weight_format(known.weights))
    try:
        check_blocks(scenario.target, precision, scenario.machine.tensor_parallel, *groups)
    except InputError as error:
        return f"{known.checkpoint} has {known.weights} weights: {error.as_flags.removeprefix('--tp: ')}"
    return None
