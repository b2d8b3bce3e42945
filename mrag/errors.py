"""What can go wrong, as a small tree. Every message is one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def named(error: Exception) -> str:
    """An error that nobody foresaw, for a sentence: its type and, on one line, its reason."""
    reason = " ".join(str(error).split()) or "no reason given"
    return f"{type(error).__name__} ({reason:.300})"


class MragError(Exception):
    """The root: anything that mrag refuses or gives up on, said in one sentence."""


class SettingsError(MragError):
    """A setting is unknown, missing or out of range; the message names its dotted path."""


class InputError(MragError):
    """What the caller asked can't be done as asked.

    `field` names the argument at fault, as it is spelled in the HTTP request.
    """

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str]]:
        return type(self), (self.field, str(self))


class NotFoundError(InputError):
    """The thing named in `field` (a collection, a document, a generation) does not exist."""


class DocumentError(MragError):
    """One file or line can't be read; the run goes on without it and names it."""


@contextmanager
def foreseen(work: str) -> Iterator[None]:
    """Around work on one document: what nobody foresaw is a DocumentError, and costs this one alone."""
    try:
        yield
    except (MragError, OSError):
        raise
    except Exception as error:
        raise DocumentError(
            f"{work} ended with {named(error)}: this is a fault of mrag or of its libraries, report it."
        ) from error


class CollectionError(MragError):
    """The files of a collection are damaged, of another version, or of other settings."""


class StoreError(CollectionError):
    """An object store can't be reached, refuses, or lacks what should be there."""


class ModelError(MragError):
    """The language model or the encoder gave no usable reply.

    `retryable` says whether the same request can succeed later (a time-out, a busy endpoint)
    or never (a prompt beyond the window). `tokens` of prompt and completion were paid for a reply
    that is of no use; zeros where none came.
    """

    retryable = True
    tokens = (0, 0)


class PromptTooLongError(ModelError):
    """The prompt and the room for its reply exceed the model's window, in the model's tokens."""

    retryable = False


class EmptyReplyError(ModelError):
    """The model answered with nothing."""


class RefusedError(ModelError):
    """The model, or what guards it, will not have this text; another one it may well answer."""

    retryable = False


class NoLogprobsError(ModelError):
    """The engine gives no log-probabilities of the labels that were asked."""

    retryable = False


class ModelTimeoutError(ModelError):
    """The model did not answer before the request's deadline."""


class UnreachableError(ModelError):
    """A model that is elsewhere can't be reached, or turned the request away; it may be back in a moment."""


class EngineDeadError(ModelError):
    """The engine behind the model has stopped and must be restarted."""


class CapReachedError(MragError):
    """The cap on LLM tokens leaves no room for a request: what it was for is left to a later run."""
