"""What a refusal is: an error of input, said in one line."""

from collections.abc import Callable
from typing import Any

import pytest

from perfmodel.errors import InputError


def refused(says: str, call: Callable[..., object], *given: Any, **named: Any) -> None:
    """The call raises InputError, whose one line has what the pattern says."""
    with pytest.raises(InputError, match=says) as caught:
        call(*given, **named)
    assert "\n" not in str(caught.value)
