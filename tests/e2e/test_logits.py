"""runnel logits: the numbers of the reference, on disk whole or not at all."""

import array
import json
import os
import struct

import e2e

# The models of tests/support/golden.h, and what is too far from the reference (tests/golden/test_golden.cpp says
# why GELU is further off).
LARGEST_ERRORS = {
    **dict.fromkeys(("llama-dense", "llama-moe", "qwen2-dense", "qwen3-dense", "phi3-dense", "granite-dense"), 1e-11),
    **dict.fromkeys(("gemma2-dense", "gpt2-dense", "falcon-dense", "bloom-dense"), 3e-7),
}


def nmse(ours, reference):
    """Normalised mean squared error."""
    return sum((a - b) ** 2 for a, b in zip(ours, reference)) / sum(b * b for b in reference)


class Logits(e2e.TestCase):
    def logits(self, model, tokens, *arguments):
        out = self.folder / "logits.f32"
        result = self.succeed("logits", model, "--tokens", ",".join(map(str, tokens)), "--out", out, *arguments)
        self.assertEqual(result.out, b"")
        self.assertEqual(os.listdir(self.folder), ["logits.f32"])
        return array.array("f", out.read_bytes())

    def test_families_agree_with_the_reference(self):
        for family, largest in LARGEST_ERRORS.items():
            with self.subTest(family):
                model = e2e.shared(f"golden/{family}.gguf")
                data = e2e.shared(f"golden/{family}.logits").read_bytes()
                n_tokens, n_vocab = struct.unpack_from("<II", data)
                tokens = struct.unpack_from(f"<{n_tokens}i", data, 8)
                reference = array.array("f", data[8 + 4 * n_tokens :])
                window = 256 if family == "phi3-dense" else 0  # as in tests/golden/test_golden.cpp
                for arguments in (("-t", "1"), ("-t", "2"), ("-t", "1", "--step")):
                    ours = self.logits(model, tokens, "--cache", "f32", "--window", window, *arguments)
                    self.assertEqual(len(ours), n_tokens * n_vocab)
                    self.assertLess(nmse(ours, reference), largest, arguments)

    def test_shape(self):
        n_vocab = json.loads(self.succeed("info", e2e.DEMO, "--json").out)["model"]["n_vocab"]
        self.assertEqual(len(self.logits(e2e.DEMO, [1, 300, 400])), 3 * n_vocab)
        out = self.folder / "again.f32"
        report = json.loads(self.succeed("logits", e2e.DEMO, "--tokens", "1,300", "--out", out, "--json").out)
        shape = {"n_tokens": 2, "n_vocab": n_vocab}
        self.assertEqual(report, {"model": str(e2e.DEMO), "out": str(out), "type": "f32", **shape})
        self.assertEqual(out.stat().st_size, 2 * n_vocab * 4)

    def test_failures_leave_no_file(self):
        out = self.folder / "logits.f32"
        for tokens in ("1,4096", "1,-1", "1,2147483647", "1,99999999999", "1,,2", "one", "", "1 2"):
            self.fail_cleanly("logits", e2e.DEMO, "--tokens", tokens, "--out", out)
            self.assertEqual(os.listdir(self.folder), [], tokens)

    def test_a_place_that_cannot_be_written(self):
        self.fail_cleanly("logits", e2e.DEMO, "--tokens", "1", "--out", self.folder / "no" / "file", code=1)
        self.fail_cleanly("logits", e2e.DEMO, "--tokens", "1", "--out", self.folder, code=1)
        self.fail_cleanly("logits", e2e.DEMO, "--tokens", "1,2,3", "--out", "/dev/full", code=1)

    def test_a_device_is_written_and_not_replaced(self):
        self.succeed("logits", e2e.DEMO, "--tokens", "1", "--out", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))


e2e.main()
