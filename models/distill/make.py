"""The bundled draft from the target alone, by one command: self-play, training, what it reaches.

    python models/distill/make.py --work build/draft --out models/smollm2-draft

Run again after an interruption, it goes on: self-play after its last file, training from its last checkpoint.
``--work`` keeps the corpus, the checkpoint and the target's answers; nothing in it is needed once the draft is made.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ANSWER_TOKENS = 550_000
HELD_OUT_TOKENS = 20_000


def commands(args: argparse.Namespace) -> list[list[str]]:
    """The stages in order: script and arguments."""
    corpus, held, target = args.work / "corpus", args.work / "held", ["--target", args.target] if args.target else []
    device = ["--device", args.device] if args.device else []
    play = ["selfplay.py", *target, *device]
    seeds = ["--seed", str(args.seed)], ["--seed", str(args.seed + 1)]
    checkpoint = ["--checkpoint", args.work / "checkpoint.pt"]
    train = ["train.py", *target, *device, *seeds[0], *checkpoint, "--corpus", corpus, "--held-out", held]
    answers = ["--answers", args.work / "answers.jsonl"]
    stages = [
        [*play, *seeds[1], "--out", held, "--answer-tokens", HELD_OUT_TOKENS],
        [*play, *seeds[0], "--out", corpus, "--answer-tokens", args.answer_tokens],
        [*train, "--out", args.out],
        ["evaluate.py", *target, *answers, "--draft", args.out],
    ]
    return [[str(part) for part in stage] for stage in stages]


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="directory for what is only needed on the way")
    parser.add_argument("--out", type=Path, required=True, help="directory of the draft")
    parser.add_argument("--target", type=Path, help="directory of the target; that of the wheel if not given")
    parser.add_argument("--device", help="of self-play and training; a GPU if there is one")
    parser.add_argument("--answer-tokens", type=int, default=ANSWER_TOKENS)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(given)


def main() -> None:
    args = arguments()
    args.work.mkdir(parents=True, exist_ok=True)
    for script, *rest in commands(args):
        print(f"{script} {' '.join(rest)}", flush=True)
        subprocess.run([sys.executable, HERE / script, *rest], check=True)


if __name__ == "__main__":
    main()
