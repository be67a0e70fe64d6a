"""The names that Hugging Face files use for keys, modules and formats of perfmodel, from
``models/names.csv``.
"""

from dataclasses import dataclass

from perfmodel.reading import data_folder, read_rows


@dataclass(frozen=True)
class Name:
    """One row of ``models/names.csv``.

    - spellings: words in Hugging Face files that mean `name`, separated by spaces.
    - kind: the kind of word. ``key``: a key of a config.json. ``wrapper``: `model_type` of a file with vision
      or audio. `name` is the `model_type` of its language model, if the file does not state it. ``default``:
      a size that transformers, and published files of this type (Gemma 3, LLaVA), leave out of a nested
      config. ``module``: a module of a layer in all families. `name` is the GEMM that multiplies with it.
      ``modelopt``: a value of `quant_algo`. `name` is the weight format. ``torchao``: the class of a
      configuration, without ``Config`` and underscores. `name` is the weight format.
    """

    kind: str
    name: str
    spellings: str


_ROWS = read_rows(data_folder("models") / "names.csv", Name)


def other_spellings(kind: str) -> dict[str, list[str]]:
    """The names in Hugging Face files by name in perfmodel, for one kind of word."""
    return {row.name: row.spellings.split() for row in _ROWS if row.kind == kind}


def perfmodel_names(kind: str) -> dict[str, str]:
    """The name in perfmodel by name in a Hugging Face file, for one kind of word."""
    return {word: row.name for row in _ROWS if row.kind == kind for word in row.spellings.split()}
