"""One row of the library of published acceptance: the mean results of a head on a target and a task."""

import os
import re
from dataclasses import dataclass
from functools import cache

from perfmodel.specs.boundary.files import spelling
from perfmodel.specs.models.format_in_name import format_in_name
from perfmodel.specs.models.hub_ids import hub_id
from perfmodel.specs.models.loading import load_model

_MAKER = re.compile(r"^(meta|nvidia)-")
"""The maker at the start of a model's name."""
_TUNED = re.compile(r"-(instruct|it|chat|hf|base|rl|bf16|fp8|nvfp4|mxfp4|awq|exp|static|pertensor)(?=-|$)")
"""Suffixes that mark a tuned or a quantised version of a model."""
_RELEASE_MONTH = re.compile(r"-\d{4}$")


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """The published results of one head on one task. `drafted`, `tokens_per_iteration` and `positions` are
    numbers separated by slashes.

    - drafted: the draft lengths.
    - tokens_per_iteration: tokens per iteration at each draft length, including the bonus token.
    - positions: the probability that at least 1, 2, ... drafted tokens are accepted. It is empty if it was
      not published.
    - spread: standard deviation of ln(tokens per iteration) between data sets. It is None for a single data
      set.
    - figures: number of summarised results.
    """

    target: str
    draft: str
    head: str
    task: str
    thinking: str
    temperature: str
    engine: str
    drafted: str
    tokens_per_iteration: str
    positions: str
    spread: float | None
    figures: int
    source: str

    @property
    def tokens(self) -> dict[int, float]:
        """The tokens per iteration by draft length."""
        return dict(zip(map(int, self.drafted.split("/")), _numbers(self.tokens_per_iteration), strict=True))

    @property
    def survival(self) -> tuple[float, ...]:
        """The probability that at least 1, 2, ... drafted tokens are accepted."""
        return _numbers(self.positions)

    @property
    def text(self) -> str:
        """The kind of text of the results, such as ``chat, thinking on``."""
        return f"{self.task}, thinking {self.thinking}" if self.thinking else self.task


@cache
def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, filter(None, text.split("/"))))


def short_name(name: str) -> str:
    """The name of a model in the library: its Hugging Face id in lower case, without owner, maker and tuning
    suffix.

    ``meta-llama/Llama-3.3-70B-Instruct`` becomes ``llama-3.3-70b``. Raises InputError for an unknown name.
    """
    repository = os.path.basename(_repository(name).rstrip("/")).lower()
    checkpoint = format_in_name(repository)
    model = repository if checkpoint is None else checkpoint.model
    return untuned(model)


def untuned(model: str) -> str:
    """A name in lower case without its maker and its suffixes for a tuned or quantised version."""
    return _TUNED.sub("", _MAKER.sub("", model))


def _repository(name: str) -> str:
    """The Hugging Face id of a model, or of the model of which it is a quantised version. If none is known,
    the result is the bundled name.
    """
    checkpoint = format_in_name(spelling(name))
    known = hub_id(name)
    if known is None and checkpoint is not None:
        known = hub_id(checkpoint.model)
    return known or load_model(name).name


def undated(target: str) -> str:
    """The name without a release month, such as ``deepseek-r1`` for ``deepseek-r1-0528``. The library may
    have only this plain name.
    """
    return _RELEASE_MONTH.sub("", target)
