"""``perfmodel validate engine``: a calibration of a serving engine, from its benchmark files or its running
server.
"""

import click

from perfmodel.cli.commands import takes
from perfmodel.validate.cli.arguments import Out
from perfmodel.validate.cli.engine_question import EngineQuestion


@takes(EngineQuestion)
def engine(question: EngineQuestion, out: Out = None) -> None:
    """Calibrate to a serving engine from its benchmark files (--from), its running server (--url), or both.

    The fit needs two draft lengths (the baseline counts as one) and two batches or contexts. The fit finds
    the constants that the rows determine. The other constants keep the values of the base calibration; the
    output lists these constants. Each row is also predicted by a fit that leaves this row out; the errors of
    these predictions determine the intervals of all answers.
    """
    from perfmodel.validate.harness.micro.write import destination_of

    if out is not None:
        destination_of(out)
    if question.plan:
        from perfmodel.validate.cli.engine_plan import print_plan

        return print_plan(question)
    if question.watch:
        from perfmodel.validate.cli.engine_watch import watch_pages

        return watch_pages(question)
    from perfmodel.validate.cli.engine_calibration import calibrate
    from perfmodel.validate.cli.engine_pasted import describe, pasted_of

    files = (*question.source, *question.files)
    if question.url is not None:
        from perfmodel.validate.cli.engine_drive import drive

        path, engine, version = drive(question, question.url)
        click.echo(f"record: {path}")
        return calibrate(question, question.query(), (str(path), *files), engine, version, out)
    pasted = pasted_of(question, files)
    if pasted is not None:
        return describe(question, *pasted, out)
    calibrate(question, question.query(), files, question.engine, question.version, out)
