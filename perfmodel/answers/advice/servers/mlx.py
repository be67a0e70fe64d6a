"""Command lines of MLX (``mlx_lm.server``)."""

import shlex

from perfmodel.answers.advice.servers.base import Server, Setup, Started, note_missing_cache, words_of
from perfmodel.answers.question import draft_word
from perfmodel.specs import served_id
from perfmodel.specs.models.mlx import converted_name

DEFAULT_LENGTH = 3
"""Default number of tokens that the server drafts."""


class MLX(Server):
    """The server of mlx-lm. This server can only draft with a separate model, and only for one request at
    a time.
    """

    checked = "0.32.2 (mlx-lm)"
    alone = True
    states_length = False  # the cache grows

    def start(self, setup: Setup, notes: list[str]) -> Started | None:
        """The ``mlx_lm.server`` line. The line has no draft if the server cannot run this kind of draft, or
        if no single draft length gains.
        """
        word = draft_word(setup.draft)
        tokens = setup.table.best_constant
        values: dict[str, object] = {"--model": setup.target.model_id}
        if not setup.drafts:
            why = "no draft length gains: " if setup.table.compares else ""
            notes.append(f"{why}mlx_lm.server is started without a draft model")
        elif tokens == 0:
            notes.append(
                "mlx_lm.server takes one draft length, and the best single one is 0: it is started without a "
                "draft model"
            )
        elif word != "model":
            notes.append(
                f"mlx_lm.server has no {word} draft; mlx-vlm and mlx-dspark have one, with other "
                "command lines"
            )
        else:
            source = setup.draft_path or setup.draft.name
            if source == served_id(setup.draft.model.name):  # the question names no other repository
                source = converted_name(source, setup.draft.precision.weights.name)
            values |= {"--draft-model": source, "--num-draft-tokens": tokens}
            notes.append(
                f"mlx_lm.server drafts for one request at a time, by default {DEFAULT_LENGTH} tokens"
            )
        notes.append("the name follows the pattern of mlx-community: check that the repository exists")
        note_missing_cache(self.title, setup.target, None, notes)
        return Started(shlex.join(["mlx_lm.server", *words_of(values)]))
