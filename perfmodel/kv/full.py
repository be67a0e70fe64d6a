"""The draft reads the whole cache."""

from perfmodel.kv.base import KVMethod


class Full(KVMethod):
    """Reads every cached token of the target's cache in every draft step."""

    source = "Vaswani et al. 2017, arXiv 1706.03762"
    example = "full"
    aliases = ("dense", "none")
    reads_all = True

    budget = None
