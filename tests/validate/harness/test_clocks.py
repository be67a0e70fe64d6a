"""Which clock times a run on a CPU, and what it costs."""

import itertools
import time
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from perfmodel.validate.harness.clock import Clock, ThreadClock, clock_for, overhead_s
from perfmodel.validate.records.schema import THREAD_TIME

CPU = torch.device("cpu")


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_thread_that_works_alone_is_timed_by_its_own_time(one_thread: None) -> None:
    assert clock_for(CPU).name == THREAD_TIME
    torch.set_num_threads(2)
    assert clock_for(CPU).name == Clock.name


def test_the_time_of_a_thread_does_not_pass_while_it_sleeps() -> None:
    clock = ThreadClock()
    clock.mark()
    time.sleep(0.05)
    clock.mark()
    (seconds,) = clock.laps()
    assert 0.0 <= seconds < 0.025


def test_a_thread_that_waits_for_other_processes_is_timed_by_the_wall_clock(one_thread: None) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert clock_for(CPU).name == Clock.name
    finally:
        dist.destroy_process_group()


def test_the_overhead_of_a_clock_is_a_lap_without_work() -> None:
    seconds = Clock(itertools.count(step=10**9).__next__)
    assert overhead_s(seconds) == 1.0
