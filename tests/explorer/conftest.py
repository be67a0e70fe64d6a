"""The small page, made once."""

from typing import Any

import pytest

from tests.explorer.small import payload_of, written


@pytest.fixture(scope="session")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return payload_of(written(tmp_path_factory.mktemp("page") / "small.html"))
