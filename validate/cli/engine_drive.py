"""``perfmodel validate engine --url``: times a running server and writes a record of it."""

import os
from pathlib import Path
from typing import NamedTuple

import click

from perfmodel.errors import refuse
from perfmodel.specs import load_model
from perfmodel.validate.cli.engine_question import EngineQuestion
from perfmodel.validate.engine.bench_commands import loads
from perfmodel.validate.engine.client import LiveServer
from perfmodel.validate.engine.driver import ServerLoad, check, served_gamma
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.session import PartialRun, run


class DrivenServer(NamedTuple):
    """The record of a timed server, and the name and version of its engine."""

    record: Path
    engine: str
    version: str


class ServedModel(NamedTuple):
    """The model of a running server.

    - name: the model's name in requests.
    - vocabulary: its number of tokens.
    - gamma: the draft length; 0 for plain decoding.
    """

    server: LiveServer
    name: str
    vocabulary: int
    gamma: int


def drive(q: EngineQuestion, url: str) -> DrivenServer:
    """Times a running server. Exits with 1 if some points failed. Raises InputError before the first timing
    if the server contradicts the question.
    """
    server = LiveServer.at(url)
    name = server.model()
    stated = server.engine()
    engine = q.engine or stated.name
    version = q.version or stated.version or "unknown"
    gamma = _agreed_gamma(server, q.gamma)
    points = loads(q.batches, q.prompts, q.new_tokens)
    query = q.query()
    subject = EngineSubject.of(query, engine, version)
    vocabulary = load_model(query.model).vocab_size
    check(server, name, vocabulary)
    _warn(gamma)
    served = ServedModel(server, name, vocabulary, gamma or 0)
    return DrivenServer(_timed(q, served, subject, points), engine, version)


def _agreed_gamma(server: LiveServer, given: int | None) -> int | None:
    """The draft length that a server counts, or else the given one; None if neither is known. Raises
    InputError if they differ.
    """
    counted = served_gamma(server)
    if counted is None:
        return given
    if given is not None and counted != given:
        raise refuse("--gamma", None, f"{counted}, the positions that {server.shown} counts", given)
    return counted


def _warn(gamma: int | None) -> None:
    """Warns about an unknown draft length and about a busy machine."""
    if gamma is None:
        click.echo("WARNING: no counters of drafts and no --gamma: recorded as K = 0, the baseline", err=True)
    load, _, _ = os.getloadavg()
    cores = os.cpu_count() or 1
    if load > cores:
        click.echo(f"WARNING: load {load:.1f} on {cores} CPUs: measure again on a quiet machine", err=True)


def _timed(q: EngineQuestion, served: ServedModel, subject: EngineSubject, points: list[ServerLoad]) -> Path:
    """The record of the timed points. Exits with 1 if some points failed."""
    server, name, vocabulary, gamma = served
    try:
        return run(server, name, subject, vocabulary, points, gamma, q.results_folder(), q.resume)
    except PartialRun as failed:
        click.echo(f"record (partial): {failed.path}")
        click.echo(f"error: {failed}; --resume measures them again", err=True)
        raise click.exceptions.Exit(1) from None
    except KeyboardInterrupt:
        click.echo("\ninterrupted: every finished point is kept; go on with --resume", err=True)
        raise
