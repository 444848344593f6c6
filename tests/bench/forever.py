#!/usr/bin/env python3
"""Does a model that talks on by itself fall into a loop? Distinct 4-grams for each 1,000 tokens it makes.

    forever.py                                                     the bundled model, `runnel chat --forever`
    forever.py --model model.gguf -p "Once upon a time"            `runnel generate`, through ends of texts
    forever.py --seeds 0,1,2 -- --temp 0.3 --window 60             with other settings
    forever.py --text novel.txt                                    what people's texts have

Tokens are those of the text that came out, tokenized again. Exit status 1: a share is below --least.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys

from common import DEMO, ROOT, RUNNEL

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
os.environ.setdefault("RUNNEL", str(RUNNEL))  # e2e wants both
os.environ.setdefault("RUNNEL_SOURCE_ROOT", str(ROOT))
import repetition  # noqa: E402
from e2e import QUESTION  # noqa: E402


def chatted(options, settings):
    """Enough text of a chat that goes on by itself; it is then stopped as a user would, with Ctrl-C."""
    command = [options.runnel, "chat", options.model, "--forever", "--quiet", *settings]
    # A shell without job control has its background jobs ignore Ctrl-C, and so would the chat.
    hears = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    chat = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=hears)
    chat.stdin.write(QUESTION.encode() + b"\n")
    chat.stdin.close()
    text, n_tokens = b"", 0
    while n_tokens < options.tokens:
        piece = chat.stdout.read(16384)
        if not piece:
            sys.exit("the chat ended by itself")
        text += piece
        n_tokens = len(repetition.tokens_of(options.runnel, options.model, text.decode("utf-8", "replace")))
    chat.send_signal(signal.SIGINT)
    chat.stdout.read()
    chat.wait()
    return text.decode("utf-8", "replace")


def generated(options, settings):
    command = [options.runnel, "generate", options.model, "-p", options.prompt, "--ignore-eos", "--json"]
    command += ["-n", str(options.tokens + options.tokens // 4), *settings]  # tokenized again they are fewer
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["text"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runnel", default=str(RUNNEL))
    parser.add_argument("--model", default=str(DEMO))
    parser.add_argument("-p", "--prompt", help="generate from here instead of chatting")
    parser.add_argument("--text", help="measure this file instead")
    parser.add_argument("--tokens", type=int, default=20000)
    parser.add_argument("--seeds", default="0", help="a run for each, as in 0,1,2")
    parser.add_argument("--least", type=float, default=0.5, help="share below which a text has collapsed")
    parser.add_argument("settings", nargs="*", help="options for runnel, after --")
    options = parser.parse_args()

    least = 1.0
    for seed in options.seeds.split(","):
        if options.text:
            text = pathlib.Path(options.text).read_text(encoding="utf-8", errors="replace")
        else:
            settings = ["--seed", seed, *options.settings]
            text = generated(options, settings) if options.prompt else chatted(options, settings)
        tokens = repetition.tokens_of(options.runnel, options.model, text)[: options.tokens]
        shares = repetition.distinct_shares(tokens)
        if not shares:
            sys.exit(f"only {len(tokens)} tokens")
        least = min(least, *shares)
        print(f"seed {seed}: {' '.join(f'{share:.2f}' for share in shares)}")
        print(f"  least {min(shares):.3f}, mean {sum(shares) / len(shares):.3f} of {1000 * len(shares):,} tokens")
        if options.text:
            break
    return 1 if least < options.least else 0


if __name__ == "__main__":
    sys.exit(main())
