"""What can go wrong between us and a server, each in one sentence with what to do."""

from __future__ import annotations

import os
import re
import ssl
from typing import Any

from pytest_specgate.engines.serving.stream import quoted

EXTRA = "pip install 'pytest-specgate[http]'"
_LOOK = "look at the server's log"
_ROOM = "lower the scenario's concurrency, or wait until the server is free"
_SETTINGS = "check the scenario's sampling and 'body', and name the server's software with 'dialect'"


class Failure(Exception):
    """A request or a server failed; ``what`` and ``hint`` are the halves of the message."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} — {hint}")
        self.what = what
        self.hint = hint


class Lacking(Failure):
    """The server takes no such request at all, whatever the model."""


class Busy(Failure):
    """The server has no room for the request now."""


class Failing(Failure):
    """The server broke at the request: if it is about to end, its last words say more."""


def no_stream(content_type: str, text: str) -> Failure:
    """The answer is of another kind than a stream of events."""
    said = f": {quoted(text)}" if text.strip() else ""
    what = f"answers with {content_type or 'no content type'} where a stream of events was asked for{said}"
    return Failure(what, "check that 'url' is that of an OpenAI-compatible server, without a path of its own")


def unending(seconds: float) -> Failure:
    """An answer that is no stream, and does not come to its end."""
    return Failure(f"did not come to the end of its answer in {seconds:g} s", f"{_LOOK}, or raise 'timeout'")


def headless(seconds: float) -> Failure:
    """An answer whose headers come byte by byte, and never to their end."""
    return Failure(f"did not come to the end of its answer's headers in {seconds:g} s", f"{_LOOK}, and check 'url'")


def too_large(most: int) -> Failure:
    """A page, or an answer that is no stream, beyond all measure."""
    return Failure(f"answers with more than {most >> 20} MiB", f"{_LOOK}, and check 'url'")


def compressed(coding: str) -> Failure:
    """The answer is compressed, though nobody asked for that."""
    what = f"answers compressed with {quoted(coding)}, though it was asked not to"
    return Failure(what, "give the server's own 'url', or have the proxy before it compress nothing")


def cut_short(tokens_seen: bool) -> Failure:
    """The connection ended before the answer did."""
    when = "in mid-answer" if tokens_seen else "before the first token"
    return Failing(f"closed the connection {when}", f"{_LOOK}: it may have died or run out of memory")


def silent(seconds: float) -> Failure:
    """No token came for too long."""
    return Failure(f"sent no token for {seconds:g} s", f"{_LOOK}, or raise 'timeout'")


def endless(max_tokens: int) -> Failure:
    """The stream goes on and on."""
    return Failure(f"goes on far beyond its budget of {max_tokens} tokens", f"{_LOOK}: it does not keep max_tokens")


def turned_away(some: int, of: int) -> Failure:
    """Of requests that came together the server had some come again, or refused them."""
    return Busy(f"turned {some} of {of} requests away (429 or 503)", _ROOM)


#: How servers say that they know a setting and do not take it.
_NOT_TAKEN = re.compile(r"\b(not (yet )?supported|unsupported|does not support)\b", re.IGNORECASE)


def broken_off(said: str, code: int) -> Failure:
    """The stream carries an error in place of an answer; ``code`` is the status that it stands for, else 0."""
    if code in (400, 422) and _NOT_TAKEN.search(said):
        return Lacking(f"takes no such request: {said}", _SETTINGS)
    if code in (400, 422):
        return Failure(f"broke off with an error: {said}", _SETTINGS)
    return Failing(f"broke off with an error: {said}", _LOOK)


def of_status(status: int, text: str, model: str) -> Failure:
    """An answer that is no success."""
    said = f": {quoted(text)}" if text.strip() else ""
    what = f"refuses the request with status {status}{said}"
    if status in (401, 403):
        return Failure(what, "name the variable that holds the key with 'api_key_env', and check the key")
    if status == 404:
        return Failure(what, f"check that it serves a model named {model!r}, and 'url' and 'endpoint'")
    if status in (400, 422):
        return Lacking(what, _SETTINGS) if _NOT_TAKEN.search(said) else Failure(what, _SETTINGS)
    if status in (429, 503):
        return Busy(what, _ROOM)
    if 300 <= status < 400:
        return Failure(what, "give the address that it redirects to")
    return Failing(what, _LOOK)


def of_error(error: BaseException, seconds: float, *, tokens_seen: bool = False) -> Failure | None:
    """The failure that an exception of the HTTP library is; None if it is none of its."""
    import aiohttp

    if isinstance(error, Failure):
        return error
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return _tls(error)
    if isinstance(error, aiohttp.ServerTimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return silent(seconds)
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
        return Failure(f"cannot be reached ({_reason(error)})", "start the server, or correct 'url'")
    if isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, OSError)):
        return cut_short(tokens_seen)
    if isinstance(error, aiohttp.ClientError):
        return Failure(f"does not speak HTTP as it should ({_reason(error)})", "check 'url'")
    return None


#: What OpenSSL says of an answer that is no TLS.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


def _tls(error: BaseException) -> Failure:
    certificate = getattr(error, "certificate_error", error)
    # The number of an error of TLS is OpenSSL's, and no errno.
    told = getattr(getattr(error, "os_error", error), "reason", None) or ""
    said = "" if told == "CERTIFICATE_VERIFY_FAILED" else str(told).replace("_", " ").lower()
    reason = getattr(certificate, "verify_message", "") or said or _reason(error)
    what = f"TLS failed ({reason})"
    if told in _NO_TLS:
        return Failure(what, "write http://, or give the port that speaks TLS")
    return Failure(what, "trust its certificate with the environment variable SSL_CERT_FILE, or correct 'url'")


def _reason(error: Any) -> str:
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    said = os.strerror(number) if isinstance(number, int) and number > 0 else str(cause)
    return quoted(said or type(cause).__name__)
