"""``perfmodel validate engine``: fits the timings of files, and prints and writes the calibration."""

from pathlib import Path

import click

from perfmodel.answers.question import Query
from perfmodel.errors import InputError, one_line
from perfmodel.validate.cli.engine_question import EngineQuestion
from perfmodel.validate.engine.calibration_words import lines
from perfmodel.validate.engine.fit import check_enough
from perfmodel.validate.engine.sources import calibrate_engine, read_sources, sources_of, write_calibration


def calibrate(
    q: EngineQuestion,
    query: Query,
    files: tuple[str, ...],
    engine: str | None,
    version: str | None,
    out: Path | None,
) -> None:
    """Fits the timings of the files; after a measurement, too few timings are reported as a next step instead
    of an error.
    """
    if q.url is not None:
        try:
            check_enough(read_sources(sources_of(files), q.gamma))
        except InputError as error:
            return click.echo(f"next: {one_line(str(error))}; add the record above with --from")
    calibrated = calibrate_engine(files, query, draft=q.draft, engine=engine, version=version, gamma=q.gamma)
    path = out or q.results_folder() / f"{calibrated.calibration.name}.yaml"
    record = write_calibration(calibrated, q.machine, path)
    click.echo("\n".join(lines(calibrated)))
    click.echo(f"record: {record}\ncalibration: {path}")
    served = f"--model {query.model} --hardware {query.hardware} --draft {calibrated.subject.draft}"
    click.echo(f"ask: perfmodel whatif {served} --calibration {path} ...")
