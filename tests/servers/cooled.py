"""A server that draws at another temperature than it is asked for: a real one behind a proxy that changes requests.

    python tests/servers/cooled.py 0.8 PORT COMMAND...

``COMMAND`` starts the real server, the word INNER in it standing for a port of its own. What is asked at temperature
1 is asked of it at the one given.
"""

from __future__ import annotations

import asyncio
import json
import sys

import aiohttp
from aiohttp import web

from pytest_specgate.engines.serving.process import free_port


def _cooled(body: bytes, temperature: float) -> bytes:
    asked = json.loads(body) if body else {}
    return json.dumps({**asked, "temperature": temperature}).encode() if asked.get("temperature") == 1.0 else body


async def _serve(temperature: float, port: int, command: list[str]) -> None:
    inner = free_port()
    server = await asyncio.create_subprocess_exec(*[part.replace("INNER", str(inner)) for part in command])

    async def passed_on(request: web.Request) -> web.StreamResponse:
        body = _cooled(await request.read(), temperature)
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{inner}{request.path_qs}"
        try:
            async with session.request(request.method, url, data=body, headers=headers) as answer:
                told = web.StreamResponse(
                    status=answer.status, headers={"Content-Type": answer.headers.get("Content-Type", "text/plain")}
                )
                await told.prepare(request)
                async for part in answer.content.iter_any():
                    await told.write(part)
                return told
        except aiohttp.ClientConnectionError:  # not up yet
            return web.Response(status=503)

    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", passed_on)
    runner = web.AppRunner(app)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False) as session:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            await server.wait()
        finally:
            await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
