"""Any other server of the OpenAI protocol: text, times and usage, and nothing of speculation."""

from __future__ import annotations

from pytest_specgate.engines.serving.dialects.base import Dialect

PLAIN = Dialect(
    name="plain",
    shown="OpenAI protocol",
    recognises=lambda _: True,
    version=lambda _: "",
    hint="this server tells nothing of speculation: gate speed and output",
)
