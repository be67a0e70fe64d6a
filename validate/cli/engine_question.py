"""The question of ``perfmodel validate engine``: the served configuration, its timings, and the outputs."""

from contextlib import suppress
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import Annotated

from perfmodel.answers.declaration import Argument, Question, argument, question, same_as
from perfmodel.answers.question import OF_SERVER, Query, arguments as arg
from perfmodel.answers.readers import MaybeReal, MaybeWhole, Whole, whole
from perfmodel.errors import InputError
from perfmodel.specs import VERSION_SEPARATOR, parse_engine
from perfmodel.validate.cli.arguments import Machine, ResultsFolder, Resume
from perfmodel.validate.records import RESULTS, machine_folder


@question
class EngineQuestion(Question):
    """The served configuration, the source of its timings, and the outputs."""

    _: KW_ONLY
    model: arg.Model
    hardware: arg.Hardware
    source: Annotated[
        tuple[str, ...],
        Argument(
            "Benchmark file, log or metrics page in any known format; - is standard input. May be repeated.",
            "FILE|-[,batch=N,input=N,output=N,gamma=N,accepted=X]",
            flag="--from",
        ),
    ] = ()
    files: Annotated[tuple[str, ...], Argument("More files of --from.", "FILE", place=True)] = ()
    url: Annotated[
        str | None, Argument("URL of a running OpenAI-compatible server to time.", "http://HOST:PORT")
    ] = None
    plan: Annotated[bool, Argument("Print the benchmark commands without running them.")] = False
    watch: Annotated[
        tuple[str, ...],
        Argument(
            "Check whether the served draft length is still the best one. If the flag is given twice, only "
            "the counts between the two readings are used.",
            "http://HOST:PORT|FILE",
            repeated=True,
        ),
    ] = ()
    acceptance: arg.AcceptanceFile = argument(default=None)
    context: Annotated[
        tuple[int, ...] | None,
        Argument(
            "Context, or smallest and largest context, if the text or the counters do not state it.",
            arg.COUNTS,
            default="that of the text",
        ),
    ] = None
    tp: arg.TP = argument(default=1)
    ep: arg.EP = argument(default=1)
    dp: arg.DP = argument(default=1)
    pp: Whole = same_as(Query, "pp")
    layer_split: Whole = same_as(Query, "layer_split")
    cpu_moe: Whole = same_as(Query, "cpu_moe")
    gpu_layers: MaybeWhole = same_as(Query, "gpu_layers")
    host_bandwidth: MaybeReal = same_as(Query, "host_bandwidth")
    attention_backend: str | None = same_as(Query, "attention_backend")
    memory_fraction: MaybeReal = same_as(Query, "memory_fraction")
    state_rollback: str = same_as(Query, "state_rollback")
    power_limit: arg.PowerLimit = argument(default=None)
    draft: Annotated[
        str | None,
        Argument(
            "Draft that the runs use; needed for files from speculative runs.",
            "self|KIND|NAME|PATH",
            "--draft-model",
            default="none",
            group="Draft",
        ),
    ] = None
    draft_tp: arg.DraftTP = argument(default=None)
    draft_kv: Annotated[
        str, Argument("KV method and budget of the draft.", "METHOD[:BUDGET]", group="Draft")
    ] = "full"
    gamma: Annotated[
        int | None,
        Argument(
            "Draft length, if neither the file nor the server states it; 0 is the baseline.", "N", "-g", whole
        ),
    ] = None
    weights: arg.Weights = argument(default=None)
    draft_weights: str | None = same_as(Query, "draft_weights")
    kv_dtype: arg.KVType = argument(default=None)
    engine: Annotated[
        str | None,
        Argument("Name of the engine.", "NAME", default="that of the server, else vllm", group="Engine"),
    ] = None
    version: Annotated[
        str | None,
        Argument(
            "Version of the engine.", "TEXT", default="that of the server, else unknown", group="Engine"
        ),
    ] = None
    calibration: Annotated[
        str | None,
        Argument(
            "Calibration whose values are used for constants that the rows do not determine.",
            "NAME|PATH",
            default="the device's own",
            group="Engine",
        ),
    ] = None
    batches: Annotated[tuple[int, ...], Argument("Numbers of concurrent requests.", arg.COUNTS)] = (1, 4, 16)
    prompts: Annotated[tuple[int, ...], Argument("Prompt lengths, in tokens.", arg.COUNTS)] = (512, 4096)
    new_tokens: Annotated[
        int, Argument("Number of tokens of each output.", arg.TOKENS, group="Acceptance")
    ] = 256
    draft_path: Annotated[
        str | None,
        Argument(
            "With --plan: path or id of the draft for the engine.",
            "PATH",
            default="the id of --draft or of a published head",
            group="Draft",
        ),
    ] = None
    machine: Machine = "local-1"
    results: ResultsFolder = None
    resume: Resume = False

    @property
    def mean_context(self) -> float | None:
        """The middle of `context`; None if it was not given."""
        return sum(self.context) / len(self.context) if self.context else None

    def check(self) -> None:
        """See `Question.check`."""
        self.results_folder()
        others = {
            "--plan, which runs nothing": self.plan,
            "--url, which calibrates": self.url,
            "--from, which calibrates": self.source or self.files,
        }
        wanted = [words for words, value in others.items() if value]
        if self.watch and wanted:
            raise InputError(f"--watch: must be left out with {wanted[0]}")
        if not self.watch and not wanted and self.url is None:
            raise InputError("--from, --url: one of them must be given; --plan prints the runs worth making")

    def query(self) -> Query:
        """The question whose model, formats and draft the engine serves."""
        return Query(
            self.model,
            self.hardware,
            batch=1,
            context=1,
            draft=self.draft or "ngram",
            draft_kv=self.draft_kv,
            calibration=self.calibration,
            **{name: getattr(self, name) for name in OF_SERVER},
        )

    def query_of_engine(self, printed_by: str = "") -> Query:
        """The question of `query`, for the engine that --engine names, or else for the engine that printed
        the text.
        """
        query = self.query()
        name = self.engine or printed_by
        if self.calibration is not None:
            return query
        with suppress(InputError):  # the name of an engine that is not known here
            word = parse_engine(name)
            return replace(query, engine=f"{word}{VERSION_SEPARATOR}{self.version}" if self.version else word)
        return query

    def results_folder(self) -> Path:
        """The folder for the machine's records. Raises InputError for a label with other characters than
        lower-case letters, digits and dashes.
        """
        return machine_folder(self.machine, self.results or RESULTS)
