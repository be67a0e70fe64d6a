"""Mappings that few questions read or write, as pydantic's own models; those of every answer are `Frozen`."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Known keys only, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
