"""The page for people: one HTML file, one style sheet, one script, served as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse

STATIC = Path(__file__).parent / "static"
# Everything comes from here and talks to here; nothing may frame the page or is guessed to be a script.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_PATHS = {"/": "index.html", "/static/page.css": "page.css", "/static/page.js": "page.js"}


def add_page(api: FastAPI) -> None:
    """Serves the page at `/`. It carries no data and is open to all; what it asks the API bears the token."""
    for path, name in _PATHS.items():
        api.add_api_route(path, _sends(STATIC / name), include_in_schema=False)


def _sends(file: Path) -> Callable[[], Awaitable[FileResponse]]:
    async def send() -> FileResponse:
        return FileResponse(file, headers=HEADERS)

    return send
