"""runnel perplexity: the figures of the reference, in chunks and through the stream."""

import json
import math

import e2e


class Perplexity(e2e.TestCase):
    def report(self, *arguments):
        return json.loads(self.succeed("perplexity", *arguments, "--json").out)

    def test_chunks_as_llama_cpp_scores_them(self):
        model = e2e.shared("models/stories260K-f32.gguf")
        text = e2e.shared("text/tinystories_val_decoded.txt")
        result = self.succeed("perplexity", model, "-f", text, "-c", "512", "--chunks", "40")
        words = result.out.decode().split()
        self.assertEqual((words[0], words[1], words[3], len(words)), ("PPL", "=", "+/-", 5), result)
        self.assertAlmostEqual(float(words[2]), 11.0279, delta=0.02)
        self.assertTrue(0 < float(words[4]) < 1)

    def test_the_stream_with_its_sinks(self):
        model = e2e.shared("models/demo/runnel-demo-f32.gguf")
        text = e2e.shared("text/tinystories_val_decoded.txt")
        # 4 sinks and 124, 4 sinks and 28: mean NLL of the first 1,500 tokens in double precision
        for window, nll in ((124, 3.14145), (28, 3.17253)):
            report = self.report(
                model, "-f", text, "--stream", "--sinks", 4, "--window", window, "--max-tokens", 1500, "--cache", "f32"
            )
            self.assertAlmostEqual(report["nll"], nll, delta=0.001)
            self.assertEqual(report["n_scored"], 1499)

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

    def test_buckets_make_up_the_whole(self):
        path = self.write("text", b"It was a bright cold day in April, and the clocks were striking. " * 40)
        report = self.report(e2e.DEMO, "-f", path, "-c", 64, "--buckets", 3)
        self.assertEqual(sum(bucket["n_scored"] for bucket in report["buckets"]), report["n_scored"])
        nll = sum(bucket["n_scored"] * bucket["nll"] for bucket in report["buckets"]) / report["n_scored"]
        self.assertAlmostEqual(nll, report["nll"], places=9)
        self.assertAlmostEqual(math.exp(nll), report["ppl"], places=6)
        self.assertEqual(report["n_scored"], report["n_tokens"] // 64 * 31)

    def test_a_text_too_short(self):
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "Hello", code=1, naming="512")

    def test_sinks_need_the_stream(self):
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "Hello", "--sinks", "2", code=2, naming="--stream")


e2e.main()
