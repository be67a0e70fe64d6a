"""The commands that make a GGUF file from the repository of a draft head. The commands were not run with
llama.cpp's programs.
"""

import shlex

UNTESTED = "the commands that convert the head were not tested"
"""The note beside the commands."""
UNQUANTISED = "bf16"
OUTPUT_TYPES = (UNQUANTISED, "q8_0")
"""Formats that the converter writes itself. llama-quantize makes all other formats."""


def conversion(head: str, file: str, weights: str, target: str | None) -> list[str]:
    """The commands that write a GGUF file from the repository of a draft head.

    - head: the repository.
    - file: the file to write.
    - weights: the weight format of the file.
    - target: repository of the target, if the head needs the target's tokenizer; None if the head has its
      own.
    """
    folder = file.removesuffix(".gguf")
    mix = weights.partition(",")[0]
    direct = mix in OUTPUT_TYPES
    written = file if direct else f"{folder}-{UNQUANTISED}.gguf"
    commands = [["hf", "download", head, "--local-dir", folder]]
    convert = ["python", "convert_hf_to_gguf.py", folder]
    if target is not None:
        tokenizer = target.rpartition("/")[2]
        commands.append(["hf", "download", target, "--local-dir", tokenizer, "--include", "*.json"])
        convert += ["--target-model-dir", tokenizer]
    commands.append([*convert, "--outtype", mix if direct else UNQUANTISED, "--outfile", written])
    if not direct:
        commands.append(["llama-quantize", written, file, mix.upper()])
    return [shlex.join(words) for words in commands]
