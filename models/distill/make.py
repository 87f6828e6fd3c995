"""The bundled draft from the target alone, by one command: self-play, training, what it reaches.

    python models/distill/make.py --work build/draft --out models/smollm2-draft

Run again after an interruption, it goes on: self-play after its last file, training from its last checkpoint.
``--work`` keeps the corpus, the checkpoint and the target's answers; nothing in it is needed once the draft is made.
``--players`` processes play side by side; each is given one thread, for which one process's streams are enough work.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ANSWER_TOKENS = 1_190_000
HELD_OUT_TOKENS = 20_000


Command = list[str]


def stages(args: argparse.Namespace) -> list[list[Command]]:
    """The stages in order; the commands of one, script and arguments, run side by side."""
    held, corpora = args.work / "held", [args.work / "corpus" / str(player) for player in range(args.players)]
    general = ["--target", args.target] if args.target else []
    device = [*general, *(["--device", args.device] if args.device else [])]
    parts = [args.answer_tokens // args.players + (i < args.answer_tokens % args.players) for i in range(args.players)]

    def play(seed: int, out: Path, tokens: int) -> list[object]:
        return ["selfplay.py", *device, "--seed", seed, "--out", out, "--answer-tokens", tokens]

    training = ["train.py", *device, "--seed", args.seed, "--checkpoint", args.work / "checkpoint.pt"]
    evaluation = ["evaluate.py", *general, "--answers", args.work / "answers.jsonl", "--draft", args.out]
    planned: list[list[list[object]]] = [
        [play(args.seed, held, HELD_OUT_TOKENS)],
        [play(args.seed + 1 + i, out, part) for i, (out, part) in enumerate(zip(corpora, parts, strict=True))],
        [[*training, "--corpus", *corpora, "--held-out", held, "--out", args.out]],
        [evaluation],
    ]
    return [[[str(part) for part in command] for command in stage] for stage in planned]


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="directory for what is only needed on the way")
    parser.add_argument("--out", type=Path, required=True, help="directory of the draft")
    parser.add_argument("--target", type=Path, help="directory of the target; that of the wheel if not given")
    parser.add_argument("--device", help="of self-play and training; a GPU if there is one")
    parser.add_argument("--answer-tokens", type=int, default=ANSWER_TOKENS)
    parser.add_argument("--players", type=int, default=1, help="processes of self-play at once, one thread each")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(given)


def run(commands: list[Command]) -> None:
    """Run the commands side by side; if one fails, the others are ended."""
    single = os.environ | {"OMP_NUM_THREADS": "1"} if len(commands) > 1 else None
    running = []
    for script, *rest in commands:
        print(f"{script} {' '.join(rest)}", flush=True)
        running.append(subprocess.Popen([sys.executable, HERE / script, *rest], env=single))
    codes: list[int | None] = [None]
    try:
        while None in codes and not any(codes):
            time.sleep(0.2)
            codes = [process.poll() for process in running]
    finally:
        for process in running:
            process.terminate()
            process.wait()
    if failed := [code for code in codes if code]:
        raise SystemExit(f"exit code {failed[0]} — mend what is said above, then run the command again: it goes on")


def main() -> None:
    args = arguments()
    args.work.mkdir(parents=True, exist_ok=True)
    for stage in stages(args):
        run(stage)


if __name__ == "__main__":
    main()
