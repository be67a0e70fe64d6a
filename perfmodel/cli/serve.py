"""``perfmodel serve``: the predictor over HTTP, for tools in other languages."""

from typing import Annotated

import click

from perfmodel.adapters.http import server
from perfmodel.answers.declaration import Argument
from perfmodel.answers.point.predictor import PredictorQuery, predictor
from perfmodel.answers.readers import whole
from perfmodel.cli.commands import takes
from perfmodel.cli.grouped_help import command

Host = Annotated[str, Argument("Address to listen on.", "ADDRESS", group="Run")]
Port = Annotated[
    int,
    Argument("Port to listen on; 0 selects a free port.", "N", read=whole, limits=(0, 65535), group="Run"),
]


@command(example="--model qwen3-32b --hardware h100 --tp 2 --draft eagle3 --gamma 3")
@takes(PredictorQuery)
def app(question: PredictorQuery, host: Host = "127.0.0.1", port: Port = 8010) -> None:
    """Serve predicted times of batches over HTTP, for simulators and planners in other languages.

    POST /forward takes {"new_tokens": [...], "past_tokens": [...], "gamma": N}. Both lists have one entry per
    request. The response contains the predicted seconds of one pass, or of one iteration with a draft. GET /
    returns the flags of the server and the number of tokens that fit in the KV cache. The flags set the
    model, device and draft of all requests. The server answers requests from this machine only, unless --host
    names another address.
    """
    made = server(predictor(question), host, port)
    click.echo(f"http://{host}:{made.server_port}/forward", err=True)
    made.serve_forever()
