"""The language model in this process: vLLM's asynchronous engine, on a GPU or without one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import platform
import signal
from collections.abc import AsyncGenerator, Iterator, Sequence
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from mrag.errors import EngineDeadError, ModelError, NoLogprobsError
from mrag.models.chat import ChatTokenizer
from mrag.models.crash_handlers import segv_handler_kept
from mrag.models.language_model import Choice, Completion, Likelihood, Message, Request
from mrag.models.skeleton import ModelSkeleton, final
from mrag.models.watchdog import Watchdog
from mrag.models.weights import ensure_weights, short_identity
from mrag.schema import Usage
from mrag.settings import VllmSettings

GIB = 1 << 30
CLOSE_S = 20.0
WATCH_S = 0.2
FEW_CORES = 4
# Scheduler and model in one process. vLLM's usual two wait for each other by spinning, and on two cores
# that took a third of the computing; by name, since the plain "uni" is turned into "mp" without a GPU.
ONE_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
CPU_BLOCK_TOKENS = 32
# Set unless the user did: nothing is reported home, errors go to standard error, and the engine
# is spawned, since a fork would copy the threads' locks of FAISS, torch or a Java machine.
ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
# Otherwise the sampler is compiled at the first log-probabilities, which takes a minute and a C++ compiler.
EAGER = {"TORCHDYNAMO_DISABLE": "1"}


class VllmModel(ModelSkeleton):
    """`LanguageModel` over `AsyncLLM`. It can be asked after `load`, in the event loop that loaded it.

    The engine runs in processes of its own, which `close` ends. Because they are spawned, a script
    that opens a model needs the usual `if __name__ == "__main__":` guard.
    """

    computes_together = True

    def __init__(self, settings: VllmSettings) -> None:
        super().__init__(settings.window_tokens, settings.max_concurrency, settings.timeout_s)
        self.settings = settings
        self._numbers = itertools.count()
        self._identity = settings.model
        self._engine: Any = None
        self._chat: ChatTokenizer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchdog: Watchdog | None = None

    async def load(self) -> None:
        """Fetches the weights where they are missing and starts the engine. Raises ModelError."""
        if self._engine is None:
            self._loop = asyncio.get_running_loop()
            self._engine = await self._start(await asyncio.to_thread(self.prepare))

    def prepare(self) -> Path:
        """All but the engine: enough to count tokens and to know the name. Returns the weights' folder."""
        folder = ensure_weights(self.settings.model)
        self._identity = short_identity(folder)
        self._chat = ChatTokenizer(folder)
        return folder

    async def _start(self, folder: Path) -> Any:
        """The engine, whose processes are watched from their first moment; none is left if it fails."""
        self._watchdog = Watchdog()
        starting = asyncio.create_task(asyncio.to_thread(start_engine, self.settings, folder))
        try:
            while not starting.done():
                await asyncio.wait([starting], timeout=WATCH_S)
                self._watchdog.watch_children()
            return starting.result()
        except BaseException:
            self._watchdog.bite()
            raise

    @property
    def name(self) -> str:
        """Source and revision of the weights, once they are loaded."""
        return self._identity

    def count_tokens(self, text: str) -> int:
        """Tokens of bare `text`; the names of control tokens count as the plain text they are."""
        return self._chatting().plain.count(text)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the rendered chat, the template's own included."""
        return len(self._chatting().prompt_ids(messages))

    async def close(self) -> None:
        """Ends the engine's processes; requests that still run fail with EngineDeadError."""
        await super().close()
        engine, self._engine = self._engine, None
        if engine is None:
            return
        if engine.output_handler and not engine.get_num_unfinished_requests():
            engine.output_handler.cancel()  # An idle handler would log the end of its engine as a failure.
        await asyncio.to_thread(engine.shutdown, CLOSE_S)
        if self._watchdog:
            self._watchdog.dismiss()

    async def _complete(self, request: Request) -> Completion:
        output = await self._whole(request, **decoding(request))
        reply = output.outputs[0]
        return Completion(reply.text, _usage(output), reply.finish_reason)

    async def _pieces(self, request: Request) -> AsyncGenerator[str, None]:
        async with contextlib.aclosing(self._outputs(request, "DELTA", **decoding(request))) as outputs:
            async for output in outputs:
                yield output.outputs[0].text

    async def _choose(self, request: Request, labels: Sequence[str]) -> Choice:
        tokens = {label: self._token(label) for label in labels}
        allowed = list(tokens.values())
        output = await self._whole(
            request, max_tokens=1, temperature=0.0, allowed_token_ids=allowed, logprobs=len(allowed)
        )
        found = output.outputs[0].logprobs[0]
        logprobs = {label: float(found[token].logprob) for label, token in tokens.items()}
        return Choice(logprobs, _usage(output))

    async def _likelihood(self, request: Request, reply: str) -> Likelihood:
        tokens = self._chatting().plain.ids(reply)
        output = await self._whole(request, tokens, max_tokens=1, temperature=0.0, prompt_logprobs=0)
        told = zip(tokens, output.prompt_logprobs[-len(tokens) :], strict=True) if tokens else ()
        return Likelihood(sum(float(found[token].logprob) for token, found in told), _usage(output))

    async def _whole(self, request: Request, begun: Sequence[int] = (), **decoding: Any) -> Any:
        async with contextlib.aclosing(self._outputs(request, "FINAL_ONLY", begun, **decoding)) as outputs:
            return [output async for output in outputs][-1]

    async def _outputs(
        self, request: Request, kind: str, begun: Sequence[int] = (), **decoding: Any
    ) -> AsyncGenerator[Any, None]:
        """The engine's outputs of one request, whose reply has `begun` so; closing this aborts it there."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        if self._loop is not asyncio.get_running_loop():
            raise ModelError(f"{self.name} was loaded in another event loop: open one model for each loop.")
        with self._refusals(request):
            params = SamplingParams(output_kind=RequestOutputKind[kind], **decoding)
            ids = [*self._chatting().prompt_ids(request.messages), *begun]
            prompt = {"type": "token", "prompt_token_ids": ids}
            number = f"{request.purpose}-{next(self._numbers)}"
            async with contextlib.aclosing(self._engine.generate(prompt, params, number)) as outputs:
                async for output in outputs:
                    self._check_finish(request, output.outputs[0].finish_reason)
                    yield output

    @contextlib.contextmanager
    def _refusals(self, request: Request) -> Iterator[None]:
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError as Dead
        from vllm.v1.engine.exceptions import EngineGenerateError

        try:
            yield
        except Dead:
            raise EngineDeadError(f"The engine of {self.name} has stopped: open the model again.") from None
        except VLLMClientError as error:
            raise final(f"{self.name} refuses the request of {request.purpose}: {_line(error)}.") from error
        except (EngineGenerateError, ValueError) as error:
            reason = _line(error.__cause__ or error)
            raise ModelError(f"{self.name} failed on {request.purpose}: {reason}.") from error

    def _check_finish(self, request: Request, finish: str | None) -> None:
        if self._closed:
            raise EngineDeadError(f"The model {self.name} was closed before it answered {request.purpose}.")
        if finish not in (None, "stop", "length"):
            raise ModelError(f"{self.name} gave up on {request.purpose} ({finish}): ask again.")

    def _token(self, label: str) -> int:
        ids = self._chatting().plain.ids(label)
        if len(ids) != 1:
            raise NoLogprobsError(
                f"The label {label!r} is {len(ids)} tokens of {self.name}: labels must be one token each."
            )
        return ids[0]

    def _chatting(self) -> ChatTokenizer:
        if self._chat is None:
            raise EngineDeadError(f"The model {self.name} is not loaded: await its load() first.")
        return self._chat


def decoding(request: Request) -> dict[str, Any]:
    """The request's limits in the words of vLLM's SamplingParams."""
    from vllm.platforms import current_platform
    from vllm.sampling_params import StructuredOutputsParams

    limits: dict[str, Any] = {"max_tokens": request.max_tokens, "temperature": request.temperature}
    # Where a prompt is read in parts vLLM turns the request's own generator back, which a CPU's can't do: the
    # engine would end. There the engine's generator draws for all, so that another try still differs.
    if request.temperature > 0 and not current_platform.is_cpu():
        limits["seed"] = request.seed
    if request.schema is not None:
        limits["structured_outputs"] = StructuredOutputsParams(json=json.dumps(request.schema))
    return limits


def _usage(output: Any) -> Usage:
    return Usage(1, len(output.prompt_token_ids), len(output.outputs[0].token_ids))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


def set_environment(settings: VllmSettings) -> None:
    """What must stand in the environment before vLLM is imported."""
    for name, value in (ENVIRONMENT | EAGER if settings.enforce_eager else ENVIRONMENT).items():
        os.environ.setdefault(name, value)


def executor(settings: VllmSettings) -> str | None:
    """What runs the model beside vLLM's scheduler; None leaves it to vLLM."""
    from vllm.platforms import current_platform

    if settings.tensor_parallel > 1:
        return "mp"  # Its own processes, in a Ray actor too: the actor holds the GPUs already.
    return ONE_PROCESS if current_platform.is_cpu() and cores() < FEW_CORES else None


def dtype(settings: VllmSettings) -> str:
    """What the engine computes in: x86 without AVX-512 is five times slower in halves."""
    import torch
    from vllm.platforms import current_platform

    capability = torch.backends.cpu.get_cpu_capability()
    slow = platform.machine() == "x86_64" and not capability.startswith("AVX512")
    return "float32" if settings.dtype == "auto" and current_platform.is_cpu() and slow else settings.dtype


def cores() -> int:
    """How many this process may run on."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def threads(settings: VllmSettings) -> Iterator[None]:
    """Around the start of an engine: in one process it computes with as many threads as this says."""
    name = "OMP_NUM_THREADS"
    before = os.environ.get(name)
    if executor(settings) == ONE_PROCESS:
        os.environ[name] = str(cores())
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def engine_arguments(settings: VllmSettings, folder: Path) -> dict[str, Any]:
    """The settings in the words of vLLM's EngineArgs."""
    from vllm.platforms import current_platform

    return {
        "model": str(folder),
        "max_model_len": settings.window_tokens,
        "max_num_seqs": settings.max_concurrency,
        "gpu_memory_utilization": settings.memory_fraction,
        "kv_cache_memory_bytes": int(settings.kv_cache_gib * GIB) if current_platform.is_cpu() else None,
        "tensor_parallel_size": settings.tensor_parallel,
        "dtype": dtype(settings),
        "distributed_executor_backend": executor(settings),
        "enforce_eager": settings.enforce_eager,
        # Only whole blocks of a shared prefix are read once, and vLLM's own are 128 tokens without a GPU.
        "enable_prefix_caching": True,
        "block_size": CPU_BLOCK_TOKENS if current_platform.is_cpu() else None,
        "max_logprobs": -1,
        "logprobs_mode": "processed_logprobs",
        # Small models fill a schema's free white space with blanks until max_tokens.
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        "seed": 0,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }


def start_engine(settings: VllmSettings, folder: Path) -> Any:
    """A running `AsyncLLM` over the weights in `folder`; takes half a minute. Raises ModelError."""
    set_environment(settings)
    with segv_handler_kept():
        # vLLM imports it at the first schema; the library below it, tvm_ffi, catches SIGSEGV when loaded.
        import xgrammar  # noqa: F401
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments = AsyncEngineArgs(**engine_arguments(settings, folder))
    # Control-C in a terminal is for this process to answer: the engine inherits a mask and lives on.
    # Starting the tracker would take the mask away, so it is started before.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with threads(settings):
            return AsyncLLM.from_engine_args(arguments)
    except (ValueError, RuntimeError, OSError) as error:
        raise ModelError(
            f"The engine of {settings.model} did not start ({_line(error)}): lower window_tokens, "
            "memory_fraction or kv_cache_gib, or close what else fills the memory."
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
