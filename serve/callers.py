"""Where a request comes from, as far as that can be believed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from fastapi import Request

from mrag.settings import LOOPBACK

Network = IPv4Network | IPv6Network

_LOCAL_HOST = re.compile(rf"(?:{'|'.join(map(re.escape, LOOPBACK))}|\[::1\])(?::\d+)?", re.IGNORECASE)
_SITE_BITS = 64  # what one IPv6 customer has at least


def is_local(request: Request) -> bool:
    """Whether a program on this machine asks for itself.

    A proxy on this machine asks for others, and what it or a caller says of them can't be believed. A
    page of another site may have given its own name the address of this machine: hence the Host.
    """
    if request.client is None or request.client.host not in LOOPBACK:
        return False
    if any(name in request.headers for name in ("forwarded", "x-forwarded-for")):
        return False
    return bool(_LOCAL_HOST.fullmatch(request.headers.get("host", "")))


def caller_of(request: Request, proxies: Sequence[Network] = ()) -> str:
    """The address that asks: of an IPv6 one the site. The `proxies` are believed when they name theirs.

    Of several in `X-Forwarded-For` the last that none of them has: what stands before it, anyone can write.
    """
    here = request.client.host if request.client else ""
    passed = [name.strip() for name in ",".join(request.headers.getlist("x-forwarded-for")).split(",")]
    while passed and _within(here, proxies):
        here = passed.pop() or here
    return _site(here)


def _within(name: str, networks: Sequence[Network]) -> bool:
    address = _address(name)
    return address is not None and any(address in network for network in networks)


def _site(name: str) -> str:
    address = _address(name)
    if not isinstance(address, IPv6Address):
        return str(address or name[:64])
    return str(IPv6Network((address, _SITE_BITS), strict=False))


def _address(name: str) -> IPv4Address | IPv6Address | None:
    """None where it is none, as on a socket of the file system."""
    try:
        address = ip_address(name)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
