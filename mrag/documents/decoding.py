"""Bytes to clean text: any encoding in, line feeds and valid UTF-8 out."""

from __future__ import annotations

import codecs
import re

import charset_normalizer

from mrag.errors import DocumentError

HEAD_BYTES = 8192

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# What files of people are in when they are not in Unicode; of equal guesses the first one is taken.
_LEGACY = (
    "cp1252",
    "cp1250",
    "cp1251",
    "koi8_r",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "shift_jis",
    "euc_jp",
    "gb18030",
    "big5",
    "euc_kr",
)
# No text has them but by accident; tabs, ends of lines and pages, and the escapes of terminals it has.
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b"})
_FEW = 0.02
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")
# Soft hyphen, zero-width space, marks of direction, word joiner, byte order mark, tags. The joiners
# U+200C and U+200D stay: Persian, Indic scripts and emoji are spelled with them.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


class UnsupportedError(DocumentError):
    """What was found is of no kind that a loader reads."""


def marked_encoding(head: bytes) -> str | None:
    """The Unicode encoding that a byte order mark announces."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def refuse_binary(head: bytes) -> None:
    """Raises UnsupportedError for NUL among many control characters, where no byte order mark explains them.

    One that strayed into a text is no reason: it is read as U+FFFD.
    """
    if marked_encoding(head) is None and b"\x00" in head:
        controls = len(head) - len(head.translate(None, _CONTROLS))
        if controls > max(2, _FEW * len(head)):
            raise UnsupportedError("The file is binary, not text.")


def decode(data: bytes, declared: str | None = None) -> str:
    """Plain text of a whole file: by its byte order mark, as UTF-8, as it declares, or by a guess.

    Raises UnsupportedError where nothing fits.
    """
    refuse_binary(data[:HEAD_BYTES])
    if marked := marked_encoding(data):
        try:
            return plain(data.decode(marked))
        except UnicodeDecodeError:
            raise UnsupportedError(
                f"The file is not valid {marked.upper()}, as its first bytes say."
            ) from None
    # ISO-2022-JP and its like are ASCII to the eye.
    for encoding in (declared, "utf-8") if data.isascii() else ("utf-8", declared):
        try:
            return plain(data.decode(encoding or "utf-8"))
        except UnicodeDecodeError:
            continue
    return plain(_guess(data))


def _guess(data: bytes) -> str:
    matches = charset_normalizer.from_bytes(data, cp_isolation=list(_LEGACY))
    if not matches:
        raise UnsupportedError("The file is binary, or text in an encoding that could not be told.")
    best = min(
        matches, key=lambda match: (round(match.chaos - match.coherence, 1), _preference(match.encoding))
    )
    return str(best)


def _preference(encoding: str) -> int:
    return _LEGACY.index(encoding) if encoding in _LEGACY else len(_LEGACY)


def plain(text: str) -> str:
    """Clean text without the characters that nobody sees: they part words and hide others from a reader."""
    return _INVISIBLE.sub("", clean(text))


def clean(text: str) -> str:
    """Line feeds only; U+FFFD for NUL and lone surrogates, so that all that follows can be UTF-8."""
    return _FORBIDDEN.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
