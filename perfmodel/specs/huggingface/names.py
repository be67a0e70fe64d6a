"""What Hugging Face files call the things of perfmodel: the table ``models/names.csv``."""

from dataclasses import dataclass

from perfmodel.reading import data_folder, read_rows


@dataclass(frozen=True)
class Name:
    """One row of ``models/names.csv``.

    - spellings: words of Hugging Face files, separated by spaces, each of which means `name`.
    - kind: what the spellings name. ``key``: keys of a config.json. ``wrapper``: `model_type` of a file with
      vision or audio; `name` is that of its language model, if this states none. ``default``: sizes that
      transformers, and published files of that type (Gemma 3, LLaVA), leave out of a nested config.
      ``module``: modules of a layer in all families; `name` is the GEMM that multiplies with them.
      ``modelopt``: values of `quant_algo`; `name` is the format. ``torchao``: classes of configurations,
      without ``Config`` and underscores; `name` is the format.
    """

    kind: str
    name: str
    spellings: str


_ROWS = read_rows(data_folder("models") / "names.csv", Name)


def other_spellings(kind: str) -> dict[str, list[str]]:
    """Name in perfmodel -> its names in Hugging Face files."""
    return {row.name: row.spellings.split() for row in _ROWS if row.kind == kind}


def perfmodel_names(kind: str) -> dict[str, str]:
    """Name in a Hugging Face file -> its name in perfmodel."""
    return {word: row.name for row in _ROWS if row.kind == kind for word in row.spellings.split()}
