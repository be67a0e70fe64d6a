"""Mappings that only some questions read or write, as pydantic's own models; those that every answer needs are `Frozen`."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Known keys only, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
