"""Finds the prompt parts that requests of a trace share, from hashes of prompt blocks or from sessions."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import refuse
from perfmodel.queueing.blocks import Path, Shared


def of_hashes(prompts: NDArray[np.int64], hashes: Sequence[Sequence[int]], where: str) -> Shared:
    """Finds the shared parts of prompts from hashes. Each hash identifies a block together with all blocks
    before it, as in Mooncake's traces (blocks of 512 tokens).

    The longest list of hashes determines the block size. It is the smallest power of two with which the
    blocks of this list cover the prompt. Raises InputError, which names the file `where`, for a prompt with
    fewer hashes than full blocks.
    """
    longest = max(range(len(hashes)), key=lambda request: len(hashes[request]))
    tokens_per_hash = prompts[longest] / max(len(hashes[longest]), 1)
    doublings = int(np.ceil(np.log2(max(tokens_per_hash, 1.0))))
    block = 2**doublings
    paths: list[Path] = []
    for request, (prompt, ids) in enumerate(zip(prompts.tolist(), hashes, strict=True)):
        full = prompt // block
        if ids and len(ids) < full:
            whole = f"the {full} full blocks of {block} in its prompt of {prompt} tokens"
            raise refuse(
                where, f"hash_ids of request {request + 1} by arrival", f"one for each of {whole}", len(ids)
            )
        path = [(each, block) for each in ids[:full]]
        if prompt % block and full < len(ids):
            path.append((ids[full], prompt - full * block))
        paths.append(tuple(path))
    return Shared(paths, [None] * len(paths))


def of_sessions(
    prompts: NDArray[np.int64], outputs: NDArray[np.int64], sessions: Sequence[Hashable | None]
) -> Shared:
    """Finds the shared parts of prompts from the sessions of requests, which are in the order of arrival.

    Each prompt begins with the previous context of its session, or with as much of this context as fits in
    the prompt. The request is sent after the previous answer. A session of None means a request without a
    session.
    """
    paths: list[Path] = []
    keeps: list[int | None] = [None] * len(sessions)
    follows: list[int | None] = [None] * len(sessions)
    before = dict[Hashable, int]()
    nodes = dict[Hashable, int]()
    contexts = (prompts + outputs - 1).tolist()  # no pass has read the last output token
    for request, (prompt, session) in enumerate(zip(prompts.tolist(), sessions, strict=True)):
        path: Path = ()
        if session is not None:
            node = nodes.setdefault(session, len(nodes))
            keeps[request] = node
            if session in before:
                follows[request] = before[session]
                path = ((node, min(contexts[before[session]], prompt)),)
            before[session] = request
        paths.append(path)
    return Shared(paths, keeps, follows, [0.0] * len(sessions))
