"""runnel tokenize: ids on one line."""

import json

import e2e

CASES_A_FILE = 8  # the unit tests go through all of them
SEPARATOR = b"\n__ggml_vocab_test__\n"


class Tokenize(e2e.TestCase):
    def check_vectors(self, name):
        model = e2e.shared(f"tokenizers/ggml-vocab-{name}.gguf")
        texts = e2e.shared(f"tokenizers/ggml-vocab-{name}.gguf.inp").read_bytes().split(SEPARATOR)
        ids = e2e.shared(f"tokenizers/ggml-vocab-{name}.gguf.out").read_text().splitlines()
        self.assertGreater(len(ids), CASES_A_FILE)
        self.assertLessEqual(abs(len(texts) - len(ids)), 1)  # the last text may be followed by a separator
        step = max(1, len(ids) // CASES_A_FILE)
        for text, expected in list(zip(texts, ids))[::step]:
            path = self.write("text", text)
            result = self.succeed("tokenize", model, "-f", path, "--no-bos")
            self.assertEqual(result.out.decode().split(), expected.split(), text)

    def test_llama(self):
        self.check_vectors("llama-spm")

    def test_gpt2(self):
        self.check_vectors("gpt-2")

    def test_deepseek(self):
        self.check_vectors("deepseek-llm")

    def test_bert(self):
        self.check_vectors("bert-bge")

    def test_bos_and_special_tokens(self):
        tokens = self.succeed("tokenize", e2e.DEMO, "-p", " <|user|>Hi<|end|>").out.split()
        self.assertEqual(tokens[0], b"1")
        self.assertIn(b"3", tokens)
        self.assertEqual(tokens[-1], b"5")
        without = self.succeed("tokenize", e2e.DEMO, "-p", " <|user|>Hi<|end|>", "--no-bos").out.split()
        self.assertEqual(without, tokens[1:])
        plain = self.succeed("tokenize", e2e.DEMO, "-p", "<|end|>", "--no-bos", "--no-parse-special").out.split()
        self.assertGreater(len(plain), 1)

    def test_where_the_text_comes_from(self):
        text = "Two words\n\nand a café"
        path = self.write("text", text.encode())
        expected = self.succeed("tokenize", e2e.DEMO, "-p", text).out
        self.assertEqual(expected.count(b"\n"), 1)
        self.assertEqual(self.succeed("tokenize", e2e.DEMO, "-f", path).out, expected)
        self.assertEqual(self.succeed("tokenize", e2e.DEMO, stdin=text.encode()).out, expected)

    def test_json_gives_the_pieces(self):
        report = json.loads(self.succeed("tokenize", e2e.DEMO, "-p", "Hello world", "--no-bos", "--json").out)
        self.assertEqual("".join(token["text"] for token in report["tokens"]), "Hello world")
        self.assertEqual(report["n_tokens"], len(report["tokens"]))

    def test_json_gives_the_blank_of_a_word(self):
        model = e2e.shared("models/stories260K-f32.gguf")  # SentencePiece: a text's first blank is left out
        report = json.loads(self.succeed("tokenize", model, "-p", "the b the", "--no-bos", "--json").out)
        self.assertEqual([token["text"] for token in report["tokens"]], [" the", " b", " the"])

    def test_an_empty_text(self):
        self.assertEqual(self.succeed("tokenize", e2e.DEMO, "-p", "", "--no-bos").out, b"\n")


e2e.main()
