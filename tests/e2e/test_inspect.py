"""runnel inspect: what README.md says of the bundled model, in figures and in pictures."""

import json
import os
import re
import xml.etree.ElementTree as ElementTree

import e2e

SVG = "{http://www.w3.org/2000/svg}"


def mean(values):
    return sum(values) / len(values)


class LearnedPositions(e2e.TestCase):
    def test_no_more_is_read_than_the_model_sees(self):
        """What a full window reads again has the positions of other tokens."""
        golden = e2e.shared("golden/gpt2-dense.gguf").read_bytes()
        model = self.write("model.gguf", e2e.with_tokenizer(golden, 128))
        text = "".join(chr(33 + i * 7919 % 94) for i in range(300))
        for n_seen, options in ((128, ()), (21, ("--window", 20, "--sinks", 1))):
            report = json.loads(self.succeed("inspect", model, "-p", text, "--ratio", 2, "--json", *options).out)
            self.assertEqual(report["n_tokens"], n_seen)
            positions = [outlier["position"] for outlier in report["ffn_outliers"]]
            self.assertEqual(max(positions), n_seen - 1)


class Inspect(e2e.TestCase):
    def setUp(self):
        super().setUp()
        self.report = json.loads(self.succeed("inspect", "--json", "-t", "1").out)

    def test_the_largest_activation_is_the_first_tokens_in_every_layer(self):
        largest = self.report["massive_activations"][0]
        self.assertEqual((largest["token"], largest["position"], largest["dimension"]), ("<s>", 0, 71))
        self.assertEqual(largest["layers"], list(range(7)))  # what the 6 layers read and what the last one gives
        for outlier in self.report["massive_activations"][1:]:
            self.assertLess(outlier["ratio_most"], largest["ratio_most"])

    def test_half_of_all_attention_goes_to_the_first_token(self):
        masses = self.report["sink_mass"]
        self.assertEqual([len(heads) for heads in masses], [4] * 6)
        for mass in sum(masses, []):
            self.assertTrue(0 < mass < 1, masses)
        self.assertTrue(0.4 < mean(sum(masses, [])) < 0.6, masses)
        # In the middle as elsewhere: not the first layer alone makes it half.
        self.assertTrue(0.3 < mean(masses[2] + masses[3]) < 0.6, masses)

    def test_carrying_outliers_in_float_lessens_the_error_of_every_layer(self):
        carried, without = self.report["int8_error_with_outliers_carried"], self.report["int8_error_without"]
        self.assertEqual((len(carried), len(without)), (6, 6))
        for less, more in zip(carried, without):
            self.assertTrue(0 < less < 0.95 * more < 0.02, (carried, without))

    def test_pictures(self):
        pictures = self.folder / "pictures"
        text = self.write("text", b'<s> & "You" said: where would you like to eat? ' * 3)
        self.succeed("inspect", e2e.DEMO, "-f", text, "--svg", pictures)
        self.assertEqual(
            sorted(os.listdir(pictures)),
            ["attention-sinks.svg", "feed-forward-outliers.svg", "int8-error.svg", "massive-activations.svg"],
        )
        for path in pictures.iterdir():
            with self.subTest(path.name):
                picture = ElementTree.parse(path).getroot()
                self.assertEqual(picture.tag, SVG + "svg")
                self.assertGreater(len(list(picture.iter(SVG + "rect"))), 10)  # cells or bars
                self.assertTrue(any(text.text for text in picture.iter(SVG + "text")))

    def test_a_picture_of_a_layer_whose_median_is_nothing(self):
        """A feed-forward network of one hidden entry."""
        row, matrix = 2 * 256, 2 * 256 * 704  # bytes in f16
        data = e2e.DEMO.read_bytes()  # in which the last layer's ffn_up and ffn_down come last
        data = data[: row - 2 * matrix] + bytes(matrix - row) + data[-matrix:]
        model = self.write("model.gguf", data)
        self.succeed("inspect", model, "-p", "Hello there", "--svg", self.folder)
        picture = (self.folder / "feed-forward-outliers.svg").read_text()
        self.assertIn("<title>layer 5, token 0: 0</title>", picture)
        most = max(float(times) for times in re.findall("<title>layer [0-9]+, token [0-9]+: (.*)</title>", picture))
        self.assertTrue(1 < most < 1e6, most)

    def test_pictures_of_what_xml_cannot_say(self):
        """Tokens that are single bytes of a character, control characters."""
        text = self.write("text", "na\u00efve \U0001f600 \u65e5\u672c \x01\x1b".encode())
        self.succeed("inspect", e2e.DEMO, "-f", text, "--ratio", "2", "--svg", self.folder / "pictures")
        for path in (self.folder / "pictures").iterdir():
            ElementTree.parse(path)


e2e.main()
