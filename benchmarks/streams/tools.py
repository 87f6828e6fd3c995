"""Load clients from PyPI, each run as its users run it: a command of its own, a report on disk.

They are found by the path of their executable, for each wants an environment of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from streams.server import MODEL
from streams.truth import Load, Told

#: Seconds that one of them may take.
PATIENCE = 300.0


def guidellm(executable: Path, tokenizer: Path, load: Load) -> Told:
    """Its report's means over successful requests."""
    with tempfile.TemporaryDirectory() as scratch:
        prompts, report = Path(scratch) / "prompts.jsonl", Path(scratch) / "report.json"
        prompts.write_text(json.dumps({"prompt": "Say it."}) + "\n", encoding="utf-8")
        prompts.write_text(prompts.read_text(encoding="utf-8") * load.requests, encoding="utf-8")
        _run(
            [executable, "run", "--disable-console", "--backend", f"kind=openai_http,target={load.url},model={MODEL}"],
            ["--profile", f"kind=concurrent,streams={load.streams}"],
            ["--constraint", f"kind=max_requests,count={load.requests}"],
            ["--data", f"kind=json_file,path={prompts}", "--output", f"kind=json,path={report}"],
            ["--tokenizer", f"kind=huggingface_auto,model={tokenizer}"],
        )
        (told,) = json.loads(report.read_text(encoding="utf-8"))["benchmarks"]
    metrics = told["metrics"]
    named = ("output_token_count", "time_to_first_token_ms", "inter_token_latency_ms")
    tokens, ttft, itl = (metrics[name]["successful"]["mean"] for name in named)
    return Told(tokens, ttft / 1e3, itl / 1e3)


def aiperf(executable: Path, tokenizer: Path, load: Load, flags: Sequence[str] = ()) -> Told:
    """Its report's averages; it counts tokens with the tokenizer unless ``flags`` have it believe the server."""
    with tempfile.TemporaryDirectory() as scratch:
        prompts = Path(scratch) / "prompts.jsonl"
        prompts.write_text(json.dumps({"text": "Say it."}) + "\n", encoding="utf-8")
        _run(
            [executable, "profile", "--model", MODEL, "--url", load.url, "--endpoint-type", "chat", "--streaming"],
            ["--tokenizer", tokenizer, "--input-file", prompts, "--custom-dataset-type", "single_turn"],
            ["--concurrency", load.streams, "--request-count", load.requests, "--output-artifact-dir", scratch],
            ["--no-server-metrics", "--no-gpu-telemetry", "--ui", "none", "--export-level", "summary", *flags],
        )
        (report,) = Path(scratch).rglob("profile_export_aiperf.json")
        told = json.loads(report.read_text(encoding="utf-8"))
    tokens, ttft, itl = (
        told[name]["avg"] for name in ("output_sequence_length", "time_to_first_token", "inter_token_latency")
    )
    return Told(tokens, ttft / 1e3, itl / 1e3)


def _run(*parts: Sequence[object]) -> None:
    command = [str(argument) for part in parts for argument in part]
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "HF_HUB_OFFLINE"}}
    environment |= {"TOKENIZERS_PARALLELISM": "false"}  # offline mode would have aiperf refuse a tokenizer of this disk
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            status = process.wait(PATIENCE)
        finally:
            _end(process)
        if status:
            said.seek(0)
            words = said.read().strip().splitlines()[-25:]
            raise RuntimeError("\n".join([f"{command[0]} exited with {status}", *words]))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
