"""runnel perplexity over many tokens: a stream does not drift, and its lines are those of the paper."""

import xml.etree.ElementTree

import e2e


class LongStreams(e2e.TestCase):
    def test_the_stream_does_not_drift(self):
        text = e2e.shared("text/tinystories_val_decoded.txt")
        n_tokens = 16384
        stream = self.perplexity(
            e2e.DEMO, "-f", text, "--stream", "--sinks", 4, "--window", 252, "--max-tokens", n_tokens, "--buckets", 4
        )
        chunks = self.perplexity(
            e2e.DEMO, "-f", text, "-c", 256, "--score-from", 1, "--max-tokens", n_tokens, "--buckets", 4
        )
        ratios = [s["ppl"] / c["ppl"] for s, c in zip(stream["buckets"], chunks["buckets"])]
        self.assertEqual(len(ratios), 4)
        mean = sum(ratios) / len(ratios)
        for ratio in ratios:
            self.assertLess(abs(ratio / mean - 1), 0.03, ratios)
        resident = [bucket["resident_bytes"] for bucket in stream["buckets"]]
        self.assertLess(resident[-1] - resident[1], 1 << 20, resident)

    def test_the_three_lines_of_the_paper(self):
        text = e2e.shared("text/tinystories_val_decoded.txt")
        picture = self.folder / "lines.svg"
        report = self.perplexity(
            e2e.DEMO, "-f", text, "--compare", "--window", 124, "--tokens", 1500, "--every", 12, "--svg", picture
        )
        self.assertEqual((report["cache_size"], report["sinks"], report["n_scored"]), (128, 4, 114))
        ratio = {line["name"]: line["to_recomputed"] for line in report["lines"]}
        self.assertEqual(
            list(ratio),
            ["window only", "1 sink", "2 sinks", "4 sinks", "8 sinks", "recomputed without BOS", "recomputed"],
        )
        self.assertGreater(ratio["window only"], 1.07)  # the window has lost its sink
        for name in ("1 sink", "2 sinks", "4 sinks", "8 sinks"):
            self.assertAlmostEqual(ratio[name], 1, delta=0.01, msg=name)
        self.assertGreater(report["speed_up"], 3)
        root = xml.etree.ElementTree.parse(picture).getroot()
        space = "{http://www.w3.org/2000/svg}"
        widths = [line.get("stroke-width") for line in root.iter(space + "polyline")]
        self.assertEqual([width for width in widths if width != "1"], ["2", "7", "1.5"])
        names = [label.text for label in root.iter(space + "text")]
        for name in ("window only", "recomputed", "4 sinks"):
            self.assertTrue(any(n.startswith(name + ", PPL") for n in names), names)


e2e.main()
