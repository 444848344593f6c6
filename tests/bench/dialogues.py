#!/usr/bin/env python3
"""The dialogues of a JSON-lines file (../shared/text/sgd_test.jsonl) as one text in the bundled model's chat form.

    dialogues.py ../shared/text/sgd_test.jsonl > dialogues.txt
    runnel perplexity model.gguf -f dialogues.txt --parse-special --compare --window 124
"""

import argparse
import json
import os
import pathlib
import sys

ROLES = {"USER": "<|user|>", "SYSTEM": "<|assistant|>"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="a dialogue a line")
    return parser.parse_args()


def main():
    for line in parse().file.read_text(encoding="utf-8").splitlines():
        for turn in json.loads(line)["turns"]:
            sys.stdout.write(f"{ROLES[turn['speaker']]}{turn['text']}<|end|>")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # as with `head`: what reads it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
