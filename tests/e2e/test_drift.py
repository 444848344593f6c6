"""runnel perplexity --stream: as good, and as small, after many tokens as at the start."""

import json

import e2e


class Drift(e2e.TestCase):
    def report(self, *arguments):
        return json.loads(self.succeed("perplexity", *arguments, "--json", "-t", 1).out)

    def test_the_stream_does_not_drift(self):
        text = e2e.shared("text/tinystories_val_decoded.txt")
        n_tokens = 16384
        stream = self.report(
            e2e.DEMO, "-f", text, "--stream", "--sinks", 4, "--window", 252, "--max-tokens", n_tokens, "--buckets", 4
        )
        chunks = self.report(
            e2e.DEMO, "-f", text, "-c", 256, "--score-from", 1, "--max-tokens", n_tokens, "--buckets", 4
        )
        ratios = [s["ppl"] / c["ppl"] for s, c in zip(stream["buckets"], chunks["buckets"])]
        self.assertEqual(len(ratios), 4)
        mean = sum(ratios) / len(ratios)
        for ratio in ratios:
            self.assertLess(abs(ratio / mean - 1), 0.03, ratios)
        resident = [bucket["resident_bytes"] for bucket in stream["buckets"]]
        self.assertLess(resident[-1] - resident[1], 1 << 20, resident)


e2e.main()
