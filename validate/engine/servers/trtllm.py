"""TensorRT-LLM: perfmodel's client measures ``trtllm-serve``."""

import shlex

from perfmodel.errors import refuse
from perfmodel.validate.engine.servers.base import (
    BenchRequest,
    BenchServer,
    driven,
    simulated_rates,
    with_server,
)


class TensorRTLLMBench(BenchServer):
    """TensorRT-LLM."""

    def runs(self, request: BenchRequest, gamma: int, port: int) -> list[str]:
        """The shell lines for one draft length. They write a file of options and start a server that accepts
        a fixed number of tokens. The keys of the options are those of aiconfigurator 0.12.0's templates for
        TensorRT-LLM 1.0 to 1.3.
        """
        if request.method != "mtp":
            raise refuse(
                "--draft",
                None,
                "mtp for a plan of trtllm, whose other keys differ by version",
                request.method,
            )
        options = ["kv_cache_config: {enable_block_reuse: false}"]
        words = ["trtllm-serve", request.model]
        if gamma:
            options += [f"speculative_config: {{decoding_type: MTP, num_nextn_predict_layers: {gamma}}}"]
            forced = round(sum(simulated_rates(gamma)))
            words = ["env", f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={forced}", *words]
        words += ["--tp_size", str(request.tp), "--extra_llm_api_options", f"K{gamma}.yaml"]
        written = f"printf '%s\\n' {shlex.join(options)} > K{gamma}.yaml"
        return [written, *with_server(words, port, [driven(request, gamma, port)])]
