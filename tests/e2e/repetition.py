"""Whether a text has fallen into a loop: how many of its runs of four tokens come up only once."""

import json
import subprocess

PART = 1000  # tokens


def tokens_of(runnel, model, text):
    """The ids of a text, without BOS."""
    command = [str(runnel), "tokenize", str(model), "-f", "-", "--no-bos", "--json"]
    out = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    return [token["id"] for token in json.loads(out)["tokens"]]


def distinct_shares(tokens):
    """Distinct 4-grams over all 4-grams, for each 1,000 tokens. A loop of n tokens gives about n / 1000."""
    shares = []
    for start in range(0, len(tokens) - PART + 1, PART):
        part = tokens[start : start + PART]
        grams = [tuple(part[i : i + 4]) for i in range(PART - 3)]
        shares.append(len(set(grams)) / len(grams))
    return shares
