"""When an answer of a replay ends, although passes add up to its work only to rounding."""

import pytest

from perfmodel.queueing.request import QueuedRequest
from perfmodel.queueing.running_batch import RunningBatch


@pytest.mark.parametrize(("work", "ended"), [(3 * 0.1, True), (0.3 - 1e-9, True), (0.3 - 1e-4, False)])
def test_an_answer_ends_with_the_pass_that_does_its_work_to_rounding(work: float, ended: bool) -> None:
    request = QueuedRequest(0, 10, 4, work=0.3, growth=1.0, sent_s=0.0, late=False)
    batch = RunningBatch()
    batch.start(request)
    batch.work = work
    assert (batch.take_ended() is not None) is ended
    assert batch.size == (0 if ended else 1)
