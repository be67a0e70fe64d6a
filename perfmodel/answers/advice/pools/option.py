"""The two ways to use the devices for a load, and the choice between them: one pool, or separate prefill and
decode pools.
"""

from dataclasses import dataclass, replace

from perfmodel.answers.advice.pools.lines import PoolServers
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.text import request_rate


@dataclass(frozen=True, slots=True)
class PoolOption:
    """One way to use the given devices: one pool of servers that do both prefill and decoding, or a
    prefill pool and a decode pool.

    - servers: the servers of one pool, written as in ``traffic --decode``; None with two pools.
    - prefill, decode: the servers of two pools; None with one pool.
    - draft: the name of the draft, or None.
    - most_requests_per_s: the highest request rate at which enough requests meet the limits; without limits,
      0.9 of the capacity. For clients, this is the rate of their requests.
    - most_requests_per_s_per_gpu: this rate divided by the number of given devices.
    - ratio: the number of prefill devices per decode device with which both pools reach their limits at the
      same rate.
    - needed, needed_gpus: the servers on the fewest devices with which an option of this kind serves the
      given load, and the number of these devices. Both are None if no number is sufficient, if any number is,
      or if the alternatives of the answer name the fewest devices of one pool.
    - ttft_s, ttft_p90_s, tpot_s, tpot_p90_s: mean and 90th percentile of the latencies, on all given devices
      under the given load. All four are None if the devices cannot serve this load.
    - slo_share: the share of requests within the limits, on the same devices and under the same load.
    - check: a `traffic` command that prints these values.
    - start: the servers of two pools; empty with one pool.
    """

    servers: str | None
    prefill: str | None
    decode: str | None
    draft: str | None
    gamma: int
    most_requests_per_s: float
    most_requests_per_s_per_gpu: float
    ratio: float | None
    needed: str | None
    needed_gpus: int | None
    ttft_s: float | None
    ttft_p90_s: float | None
    tpot_s: float | None
    tpot_p90_s: float | None
    slo_share: float | None
    check: str
    start: tuple[PoolServers, ...] = ()

    @property
    def two(self) -> bool:
        """Whether the option has two pools."""
        return self.servers is None

    @property
    def kind(self) -> str:
        """The kind of the option in words (``one pool`` or ``two pools``)."""
        return "two pools" if self.two else "one pool"

    @property
    def serves(self) -> bool:
        """Whether the option serves the given load within the limits."""
        return self.ttft_s is not None

    @property
    def layout(self) -> str:
        """The servers of the pools in words."""
        return self.servers or f"prefill {self.prefill}, decode {self.decode}"

    @property
    def drafting(self) -> str:
        """The draft and the draft length in words."""
        return f"{self.draft}, gamma {self.gamma}" if self.gamma else "no draft"


def _at_rate(option: PoolOption, gamma: int, rate: float, gpus: int) -> PoolOption:
    """The option with another draft length and another highest rate."""
    check = option.check.replace(f"--gamma {option.gamma} ", f"--gamma {gamma} ")
    per_gpu = rate / gpus
    return replace(
        option, gamma=gamma, most_requests_per_s=rate, most_requests_per_s_per_gpu=per_gpu, check=check
    )


@dataclass(frozen=True, slots=True)
class PoolAdvice:
    """The comparison of one pool with two pools.

    - options: up to four options: the best one with one pool and the best one with two pools, each with and
      without a draft. The options are sorted by `most_requests_per_s`.
    - one_would_do: whether one pool serves the given load within the limits on the given devices.
    - load: the load in words.
    - searched: number of combinations of instance and draft length that were predicted.
    - notes: remarks about options that were not searched, and about arguments that were ignored.
    - router: how requests reach both pools in the engine of the question; empty if unknown.
    """

    gpus: int
    load: str
    request_rate: float | None
    clients: int | None
    options: tuple[PoolOption, ...]
    one_would_do: bool
    searched: int
    notes: tuple[str, ...]
    router: str = ""

    def best(self, two: bool, drafts: bool | None = None) -> PoolOption | None:
        """The best option with two pools or with one pool.

        - drafts: whether the option must have a draft; None means that both are allowed.
        """
        for option in self.options:
            if option.two is two and drafts in (None, option.gamma > 0):
                return option
        return None

    def as_replayed(self, servers: str, gamma: int, rate: float | None, alone: float) -> "PoolAdvice":
        """The comparison with the highest rates of one pool from replays instead of the closed form.

        - servers, gamma, rate: the replayed servers with the highest rate. The rate is None with clients.
        - alone: the highest rate without a draft; 0 if it is unknown.
        """
        if rate is None:
            return self
        options = []
        for option in self.options:
            found = rate if bool(option.gamma) is bool(gamma) else (0.0 if option.gamma else alone)
            if option.servers == servers and found:
                option = _at_rate(option, gamma if option.gamma else 0, found, self.gpus)
            options.append(option)
        options.sort(key=lambda option: -option.most_requests_per_s)
        return replace(self, options=tuple(options))

    @property
    def without_fewest_of_one(self) -> "PoolAdvice":
        """The comparison without the smallest number of devices of one pool."""
        options = [o if o.two else replace(o, needed=None, needed_gpus=None) for o in self.options]
        return replace(self, options=tuple(options))

    @property
    def serves(self) -> bool:
        """Whether at least one option serves the given load within the limits on the given devices."""
        return any(option.serves for option in self.options)

    @property
    def chosen(self) -> PoolOption | None:
        """The option with the highest rate. However, if two pools are better by at most the share `ALIKE`,
        the option with one pool is chosen.
        """
        one = self.best(two=False)
        two = self.best(two=True)
        if one is None or two is None:
            return one or two
        gain = two.most_requests_per_s / one.most_requests_per_s
        return two if gain > 1.0 + ALIKE else one

    @property
    def sentence(self) -> str:
        """The advice in words."""
        best = self.chosen
        if best is None:
            return f"No layout of {self.gpus} GPUs meets the limits {self._where}"
        other = self.best(not best.two)
        most = "the highest rate within the limits" if self.clients is None else f"{self.load} fastest"
        if best is not self.options[0]:
            most = "as much as two pools and takes less to run"
        text = f"{best.kind.capitalize()} of {self.gpus} GPUs serve{'s' * (not best.two)} {most}"
        text += f": {request_rate(best.most_requests_per_s, '.3g')}, {best.layout}, {best.drafting}"
        if other is None:
            return f"{text}; {'one pool' if best.two else 'two pools'}: none"
        gain = best.most_requests_per_s / other.most_requests_per_s
        return f"{text}; {gain:.2f} times the rate of {other.kind} ({other.layout}, {other.drafting})"

    @property
    def _where(self) -> str:
        return "at any rate" if self.clients is None else f"for {self.load}"

    @property
    def for_rate(self) -> str:
        """A sentence that says whether one pool or two pools serve the given load, and how many GPUs each of
        them needs.
        """
        if self.clients is not None and any(each.slo_share is None for each in self.options):
            return f"Without limits on latency, any number of devices serves {self.load}"
        one = self.best(two=False)
        two = self.best(two=True)
        rate = f"For {self.load}"
        smallest = [
            f"{each.kind} of {each.needed_gpus} GPU{'s' * (each.needed_gpus != 1)}: {each.needed}"
            for each in (one, two)
            if each and each.needed
        ]
        fewest = "; the fewest: " + "; ".join(smallest) if smallest else ""
        if self.one_would_do:
            return f"{rate} one pool suffices{fewest}"
        if self.serves:
            return f"{rate} two pools are needed{fewest}"
        return f"{rate} these {self.gpus} GPUs do not suffice within the limits{fewest}"

    @property
    def ratios(self) -> str | None:
        """The ratio of prefill devices to decode devices with and without a draft, in words. The result is
        None without an option with two pools.
        """
        best_of_both = (self.best(two=True, drafts=False), self.best(two=True, drafts=True))
        parts = [f"{each.ratio:.2f} with {each.drafting}" for each in best_of_both if each and each.ratio]
        return f"Prefill GPUs per decode GPU within the limits: {', '.join(parts)}" if parts else None
