"""runnel perplexity: the figures of the reference, in chunks and through the stream."""

import json
import math
import signal
import time
import xml.etree.ElementTree as ElementTree

import e2e

STORY = b"It was a bright cold day in April, and the clocks were striking. " * 40


class Perplexity(e2e.TestCase):
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
            report = self.perplexity(
                model, "-f", text, "--stream", "--sinks", 4, "--window", window, "--max-tokens", 1500, "--cache", "f32"
            )
            self.assertAlmostEqual(report["nll"], nll, delta=0.001)
            self.assertEqual(report["n_scored"], 1499)

    def test_buckets_make_up_the_whole(self):
        path = self.write("text", STORY)
        report = self.perplexity(e2e.DEMO, "-f", path, "-c", 64, "--buckets", 3)
        self.assertEqual(sum(bucket["n_scored"] for bucket in report["buckets"]), report["n_scored"])
        nll = sum(bucket["n_scored"] * bucket["nll"] for bucket in report["buckets"]) / report["n_scored"]
        self.assertAlmostEqual(nll, report["nll"], places=9)
        self.assertAlmostEqual(math.exp(nll), report["ppl"], places=6)
        self.assertEqual(report["n_scored"], report["n_tokens"] // 64 * 31)

    def demo_f32(self):
        """Multiplied in floats, whether by batch or token by token."""
        path = self.folder / "demo-f32.gguf"
        self.succeed("quantize", e2e.DEMO, path, "--type", "f32")
        return path

    def test_a_text_that_starts_over(self):
        path = self.write("text", STORY)
        report = self.perplexity(
            e2e.DEMO, "-f", path, "--stream", "--window", 60, "--max-tokens", 500, "--tokens", 3000, "--buckets", 6
        )
        self.assertEqual((report["n_tokens"], report["n_text"], report["n_scored"]), (3000, 500, 2999))
        first, *others = report["buckets"]
        self.assertAlmostEqual(first["ppl"] / first["first_pass_ppl"], 1, places=6)
        for bucket in others:
            self.assertNotEqual(bucket["ppl"], first["ppl"])
            self.assertEqual(bucket["n_scored"], 500)
            # the same tokens but one, which the first pass did not score: the second token, after BOS
            self.assertAlmostEqual(bucket["first_pass_ppl"] / first["ppl"], 1, delta=0.1)

    def test_a_text_that_starts_over_without_bos(self):
        def no_bos(data, at):  # u32 type 7 (bool), u8
            self.assertEqual(data[at + 4], 1)
            data[at + 4] = 0

        model = self.write("model.gguf", e2e.patched(e2e.DEMO.read_bytes(), b"tokenizer.ggml.add_bos_token", no_bos))
        path = self.write("text", STORY)
        report = self.perplexity(model, "-f", path, "--stream", "--max-tokens", 8, "--tokens", 10, "--buckets", 10)
        self.assertEqual([bucket["first_token"] for bucket in report["buckets"]], list(range(1, 10)))
        # the eight tokens after the first, which itself is scored for the first time when the text starts over
        for bucket in report["buckets"][:8]:
            self.assertAlmostEqual(bucket["first_pass_ppl"] / bucket["ppl"], 1, places=6)
        again = report["buckets"][8]
        self.assertAlmostEqual(again["first_pass_ppl"] / report["buckets"][0]["ppl"], 1, places=6)

    def test_tokens_one_by_one(self):
        path = self.write("text", STORY)
        arguments = (self.demo_f32(), "-f", path, "--stream", "--window", 28, "--max-tokens", 600, "--cache", "f32")
        together, timed = self.perplexity(*arguments), self.perplexity(*arguments, "--latency", "--buckets", 3)
        self.assertAlmostEqual(together["nll"], timed["nll"], places=4)
        self.assertNotIn("latency", together)
        parts = [timed["latency"], timed["latency_first_bucket"], timed["latency_last_bucket"]]
        self.assertEqual([part["n"] for part in parts], [599, 200, 199])
        for part in parts:
            order = [part[name] for name in ("median_us", "p99_us", "p99_9_us", "max_us")]
            self.assertEqual(order, sorted(order))
            self.assertGreater(part["median_us"], 0)
        spent = parts[0]["n"] * parts[0]["mean_us"] / 1e6
        self.assertLess(spent, timed["seconds"])
        in_buckets = sum(bucket["n_scored"] * bucket["token_us"] for bucket in timed["buckets"]) / 1e6
        self.assertAlmostEqual(in_buckets / spent, 1, delta=0.1)
        self.assertGreaterEqual(timed["resident_bytes_end"], 1 << 20)
        text = self.succeed("perplexity", *arguments, "--latency").out.decode()
        for words in ("99.9 %", "from the first part to the last", "when the window was full"):
            self.assertIn(words, text)

    def test_a_comparison_is_of_the_same_tokens(self):
        path, picture = self.write("text", STORY), self.folder / "lines.svg"
        report = self.perplexity(
            *(e2e.DEMO, "-f", path, "--compare", "--sinks", 3, "--window", 17, "--tokens", 300, "--svg", picture)
        )
        self.assertTrue(picture.read_text().startswith("<svg"))
        lines = {line["name"]: line for line in report["lines"]}
        self.assertIn("3 sinks", lines)  # those asked for, beside the usual ones
        self.assertEqual(report["n_scored"], len(range(24, 300, 8)))
        few = self.perplexity(
            *(e2e.DEMO, "-f", path, "--compare", "--window", 60, "--tokens", 100, "--every", 18, "--buckets", 4)
        )
        for line in few["lines"]:  # nothing is told of parts without scored tokens
            self.assertEqual([nll is None for nll in line["bucket_nll"]], [False, True, False, True])
        # While nothing has left the window, all lines read the same tokens.
        full = self.perplexity(
            *(self.demo_f32(), "-f", path, "--compare", "--window", 60, "--tokens", 65, "--every", 1, "--cache", "f32")
        )
        self.assertEqual(full["n_scored"], 1)
        nll = {line["name"]: line["nll"] for line in full["lines"]}
        self.assertLess(max(nll.values()) - min(nll.values()), 1e-4, nll)

    def test_a_picture_of_a_model_whose_name_xml_cannot_say(self):
        model, picture = self.folder / "<a> \x02\ufffe\uffff.gguf", self.folder / "lines.svg"
        model.symlink_to(e2e.DEMO)
        compare = ("--compare", "--window", 12, "--tokens", 40)
        self.succeed("perplexity", model, "-p", "Hello " * 60, *compare, "--svg", picture)
        texts = [text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(texts[1].startswith("<a>    .gguf: "), texts)

    def test_what_leaves_too_few_tokens_is_named(self):
        text = ("-f", self.write("text", STORY * 20))
        cut, few = ("--max-tokens", 5), "--max-tokens leaves 5 tokens of the text; "
        self.fail_cleanly("perplexity", *text, *cut, code=1, naming=few)
        self.fail_cleanly("inspect", *text, *cut, "--sinks", 6, code=1, naming=few)
        self.fail_cleanly("perplexity", *text, "-c", 1 << 20, code=1, naming="the text has ")
        stream = "the stream has 8,192 tokens (--tokens; without it the text once, and 8,192 of it at most); "
        self.fail_cleanly("perplexity", *text, "--compare", "--window", 16000, code=1, naming=stream)

    def test_options_of_the_stream_that_do_not_fit(self):
        path = self.write("text", STORY)
        for arguments, naming in (
            (["--tokens", 100], "--tokens"),
            (["--latency"], "--latency"),
            (["--every", 2], "--every"),
            (["--svg", "x.svg"], "--svg"),
            (["--stream", "--compare"], "--compare"),
            (["--compare", "-c", 64], "--chunk"),
            (["--stream", "--tokens", -1], "--tokens"),
            (["--stream", "--tokens", 2**63], "--tokens"),
            (["--compare", "--every", 0], "--every"),
        ):
            self.fail_cleanly("perplexity", e2e.DEMO, "-f", path, *arguments, code=2, naming=naming)

    def test_a_comparison_of_too_few_tokens(self):
        few = ("perplexity", e2e.DEMO, "-f", self.write("text", STORY), "--compare", "--window", 28, "--tokens")
        self.fail_cleanly(*few, 39, code=1, naming="must have 40 or more, for 32 fill sinks and window and --every is 8")
        result = self.fail_cleanly(*few, 200, "--every", 500, code=1, naming="must have 532 or more")
        self.assertIn("a smaller --window or --every", result.err)

    def test_ctrl_c_while_the_base_reads(self):
        path = self.write("text", STORY * 100)
        chunk = ("-c", 40000, "--score-from", 39999, "-t", 1)
        with e2e.start("perplexity", e2e.DEMO, "-f", path, "--kl-divergence", "--base", e2e.DEMO, *chunk) as process:
            time.sleep(2)  # a minute at least would be needed
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            out, note = process.communicate(timeout=e2e.TIMEOUT_S)
        self.assertEqual((process.returncode, out, note), (130, b"", b""))
        self.assertLess(time.monotonic() - start, 10)

    def interrupted_later_and_later(self, *arguments):
        """Output and note of a run that Ctrl-C ends once it has something to tell: on a busy machine that takes long."""
        for seconds in (1, 2, 4, 8, 16, 32):
            with e2e.start(*arguments) as process:
                time.sleep(seconds)  # the whole would need minutes
                process.send_signal(signal.SIGINT)
                out, note = process.communicate(timeout=e2e.TIMEOUT_S)
            self.assertEqual(process.returncode, 130)
            if out:
                break
        return out, note

    def test_ctrl_c_tells_what_was_scored(self):
        path = self.write("text", STORY * 500)
        chunks, stream = ["-c", 16], ["--stream", "--latency", "--buckets", 50]
        divergence = ["-c", 16, "--kl-divergence", "--base", e2e.DEMO]
        for mode, forms in ((chunks, ([], ["--json"])), (stream, ([], ["--json"])), (divergence, (["--json"],))):
            for form in forms:
                out, note = self.interrupted_later_and_later("perplexity", e2e.DEMO, "-f", path, "-t", 1, *mode, *form)
                if form:
                    result = json.loads(out)
                    self.assertTrue(result["interrupted"])
                    self.assertGreater(result["n_scored"], 0)
                    self.assertLess(result["n_scored"], result["n_tokens"] // 4)
                else:
                    self.assertIn(b"PPL = ", out)
                    self.assertNotIn(b"the last", out)  # part of a pass that was never there
                    self.assertIn(b"when Ctrl-C ended it", note)

    def test_a_text_too_short(self):
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "Hello", code=1, naming="512")

    def test_sinks_need_the_stream(self):
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "Hello", "--sinks", "2", code=2, naming="--stream")


e2e.main()
