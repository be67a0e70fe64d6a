"""llama.cpp: ``llama-batched-bench`` measures without a draft. With a draft, perfmodel's client measures
``llama-server``.
"""

import shlex

from perfmodel.validate.engine.servers.base import BenchRequest, BenchServer, driven, with_server


class LlamaCppBench(BenchServer):
    """llama.cpp."""

    word = "llama.cpp"
    files = ("K0.jsonl", "RECORDS")

    def runs(self, request: BenchRequest, gamma: int, port: int) -> list[str]:
        """The shell lines for one draft length."""
        if gamma == 0:
            batches = ",".join(map(str, request.batches))
            prompts = ",".join(map(str, request.prompts))
            return [
                f"llama-batched-bench -m {shlex.quote(request.model)} -npp {prompts} "
                f"-ntg {request.new_tokens} -npl {batches} --output-format jsonl > K0.jsonl"
            ]
        words = ["llama-server", "-m", request.model]
        words += ["--spec-type", "draft-simple", "-md", request.draft or "DRAFT"]
        words += f"--spec-draft-n-max {gamma} --spec-draft-n-min {gamma} --spec-draft-p-min 0".split()
        words += ["-np", str(request.batches[-1])]
        return with_server(words, port, [driven(request, gamma, port)])
