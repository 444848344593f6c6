#!/usr/bin/env python3
"""The dialogues of a JSON-lines file (../shared/text/sgd_test.jsonl) as one text in the bundled model's chat form.

    dialogues.py ../shared/text/sgd_test.jsonl > dialogues.txt
    runnel perplexity model.gguf -f dialogues.txt --parse-special --compare --window 124
"""

import json
import pathlib
import sys

ROLES = {"USER": "<|user|>", "SYSTEM": "<|assistant|>"}

if len(sys.argv) != 2:
    sys.exit(__doc__)
for line in pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    for turn in json.loads(line)["turns"]:
        sys.stdout.write(f"{ROLES[turn['speaker']]}{turn['text']}<|end|>")
