"""Names in files of other projects: rows of ``models/names.csv``."""

from dataclasses import dataclass

from perfmodel.reading import data_folder, read_rows


@dataclass(frozen=True)
class Name:
    """One row. theirs: words with spaces, each of which stands for `ours`.

    of: the kind of name. ``key``: of a config.json. ``wrapper``: `model_type` of a file with vision or audio
    -> that of its language model, if this has none. ``default``: sizes that transformers leaves out of a
    nested config of that type, as do published files (Gemma 3, LLaVA). ``module``: of a layer -> the GEMM
    that multiplies with it, in the spellings of all families. ``modelopt``: `quant_algo` -> format.
    ``torchao``: class of a configuration, without its ``Config`` and underscores -> format.
    """

    of: str
    ours: str
    theirs: str


_ROWS = read_rows(data_folder("models") / "names.csv", Name)


def other_spellings(of: str) -> dict[str, list[str]]:
    """Name in perfmodel -> its names in Hugging Face files."""
    return {row.ours: row.theirs.split() for row in _ROWS if row.of == of}


def perfmodel_names(of: str) -> dict[str, str]:
    """Name in a Hugging Face file -> its name in perfmodel."""
    return {name: row.ours for row in _ROWS if row.of == of for name in row.theirs.split()}
