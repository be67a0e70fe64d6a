"""Kernel tables in memory."""

from typing import Any

import numpy as np

from perfmodel.validate.fit.tables import Tables

Rows = list[dict[str, Any]]


class Held(Tables):
    """(family, engine, version, name) -> rows."""

    def __init__(self, held: dict[tuple[str, str, str, str], Rows]) -> None:
        super().__init__("tables", "h100_sxm", {}, "tables 1")
        self.__dict__["held"] = held

    def versions(self, family: str, engine: str, name: str) -> list[str]:
        return sorted(v for f, e, v, n in self.held if (f, e, n) == (family, engine, name))

    def read(self, family: str, engine: str, version: str, name: str) -> dict[str, Any]:
        rows = self.held[family, engine, version, name]
        return {column: np.array([row[column] for row in rows]) for column in rows[0]}
