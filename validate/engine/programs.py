"""The programs and container images that start a server, as they stand in a command."""

import re
from typing import NamedTuple


class Program(NamedTuple):
    """A program that starts a server, or a container image of it.

    - engine: the value of ``--engine``.
    - model_first: whether the model is an argument without a flag.
    - is_image: whether it is an image. The options of the server can follow it without a program.
    """

    engine: str
    model_first: bool = False
    is_image: bool = False


PROGRAMS = {
    "vllm serve": Program("vllm", model_first=True),
    "-m vllm.entrypoints.openai.api_server": Program("vllm"),
    "vllm/vllm-openai": Program("vllm", model_first=True, is_image=True),
    "-m sglang.launch_server": Program("sglang"),
    "sglang serve": Program("sglang"),
    "lmsysorg/sglang": Program("sglang", is_image=True),
    "llama-server": Program("llamacpp"),
    "llama.cpp:server": Program("llamacpp", is_image=True),
    "trtllm-serve": Program("trtllm", model_first=True),
    "mlx_lm.server": Program("mlx"),
    "mlx_lm.generate": Program("mlx"),
    "ollama run": Program("llamacpp", model_first=True),
}
"""Beginning of a command, or name of an image -> the program."""


def _one_of(images: bool) -> str:
    """A pattern of all images, or of all other programs."""
    return "|".join(re.escape(name) for name, program in PROGRAMS.items() if program.is_image == images)


IMAGE = re.compile(rf"(?P<name>{_one_of(images=True)})\b(?:\S*?:v(?P<version>\d+\.\d+\.\d+))?\S*")
"""An image of a server with its tag."""
COMMAND = re.compile(rf"(?P<name>{_one_of(images=False)})\b\S*")
"""A program that starts a server."""
_OPTION = re.compile(r"\s--\w")
"""An option with a name."""


class ServerCommand(NamedTuple):
    """The first command in a text that starts a server.

    - version: the version in the tag of the image; empty if there is none.
    - options: the text after the program, or after the image if no program follows.
    """

    program: Program
    version: str
    options: str

    @classmethod
    def of(cls, text: str) -> "ServerCommand | None":
        """The command of a program, or of an image whose options follow it. None for any other text."""
        image = IMAGE.search(text)
        command = COMMAND.search(text)
        if image and command and _OPTION.search(text, image.end(), command.start()):
            command = None  # the options of the image come first
        found = command or image
        if found is None:
            return None
        version = (image["version"] or "") if image else ""
        return cls(PROGRAMS[found["name"]], version, text[found.end() :])
