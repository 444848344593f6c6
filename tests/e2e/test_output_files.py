"""Files that commands write: never one that is read, never half of one, results before pictures."""

import json
import os
import signal
import stat
import subprocess
import time

import e2e


class OutputFiles(e2e.TestCase):
    compare = ("perplexity", e2e.DEMO, "-p", "Hello " * 60, "--compare", "--window", 12, "--tokens", 40)

    def model(self):
        return self.write("model.gguf", e2e.DEMO.read_bytes())

    def refused(self, path, *arguments, what="model"):
        before = path.read_bytes()
        self.fail_cleanly(*arguments, stdin=b"Hello\n", code=2, naming=f"is the {what} too")
        self.assertEqual(path.read_bytes(), before)

    def test_the_model_is_not_written_to(self):
        model = self.model()
        other_name = self.folder / "other.gguf"
        other_name.symlink_to(model)
        for name in (model, other_name):
            self.refused(model, "logits", model, "--tokens", "1,2", "--out", name)
            self.refused(model, "chat", model, "--transcript", name)
            self.refused(model, "chat", model, "--session", name)
            self.refused(model, "perplexity", model, "-p", "Hello " * 40, "--compare", "--window", 8, "--svg", name)

    def test_a_text_that_is_read_is_not_written_to(self):
        text = self.write("text", b"Where would you like to eat? " * 100)
        self.refused(text, "quantize", e2e.DEMO, text, "--calibrate", text, what="calibration text")
        compare = ("perplexity", e2e.DEMO, "-f", text, "--compare", "--window", 8)
        self.refused(text, *compare, "--svg", text, what="text")

    def test_a_session_is_no_transcript(self):
        path = self.folder / "talk"
        self.fail_cleanly("chat", "--session", path, "--transcript", path, code=2, naming="session")
        self.assertFalse(path.exists())
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        for session, transcript in (("talk", "./talk"), ("no/../talk", "talk"), (path, "talk")):
            self.fail_cleanly("chat", "--session", session, "--transcript", transcript, code=2, naming="session")
        self.assertEqual(os.listdir(), [])

    def test_a_dash_is_no_file(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        for *arguments, option in (
            ("chat", "--session"),
            ("chat", "--transcript"),
            ("quantize", e2e.DEMO, "OUT"),
            ("synth", "--shape", "stories260k", "OUT"),
        ):
            name = [] if option == "OUT" else [option]
            self.fail_cleanly(*arguments, *name, "-", code=2, naming=f"{option}: expected the name of a file, got")
        for arguments in (("logits", "--tokens", "1", "--out"), (*self.compare, "--svg")):
            self.fail_cleanly(*arguments, "-", code=2, naming=f"{arguments[-1]}: expected the name of a file, got")
            self.fail_cleanly(*arguments, "-", code=2, naming="; standard output is /dev/stdout")
        self.fail_cleanly("inspect", "--svg", "-", code=2, naming="--svg: expected the name of a folder, got")
        self.assertEqual(os.listdir(), [])
        self.assertEqual(len(self.succeed("logits", "--tokens", "1", "--out", "/dev/stdout").out), 4 * 4096)

    def test_standard_output_is_not_replaced(self):
        out = self.write("out", b"old\n")
        script = 'echo before; "$0" logits "$1" --tokens 1,2 --out /dev/stdout --json; echo after'
        with out.open("ab") as file:
            subprocess.run(["sh", "-c", script, e2e.RUNNEL, e2e.DEMO], check=True, stdout=file)
        head, tail, logits = b"old\nbefore\n", b"}\nafter\n", 2 * 4096 * 4
        content = out.read_bytes()
        self.assertEqual((content[: len(head)], content[-len(tail) :]), (head, tail))
        self.assertEqual(json.loads(content[len(head) + logits : -len(b"after\n")])["n_tokens"], 2)
        with out.open("wb") as file:
            command = [e2e.RUNNEL, *map(str, self.compare), "--svg", "/dev/stdout"]
            subprocess.run(command, check=True, stdout=file, stderr=subprocess.PIPE)
        content = out.read_bytes()
        self.assertLess(content.index(b"times as fast"), content.index(b"<svg"))
        self.assertTrue(content.endswith(b"</svg>\n"))

    def test_a_chat_writes_only_answers_to_standard_output(self):
        out = self.folder / "out"
        for *option, path in (("--transcript", "/dev/stdout"), ("--transcript", out), ("--session", out)):
            with self.subTest((*option, path)), out.open("wb") as file:
                command = [e2e.RUNNEL, "chat", *option, path]
                chat = subprocess.run(command, input=b"Hello!\n", stdout=file, stderr=subprocess.PIPE)
                self.assertEqual(chat.returncode, 2)
                self.assertIn(f"{path}: is where the answers go; name another file".encode(), chat.stderr)
        self.fail_cleanly("chat", "--transcript", "/dev/stdout", code=2, naming="is where the answers go")
        command = [e2e.RUNNEL, "chat", "--transcript", "/dev/null"]
        subprocess.run(command, input=b"Hello!\n", check=True, stdout=subprocess.DEVNULL)

    def test_a_chat_does_not_read_what_it_writes(self):
        script = 'exec "$0" chat -n 2 $2 < "$1" >> "${3:-/dev/null}"'
        for arguments in (("--transcript questions",), ("--session questions",), ("", "questions")):
            questions = self.write("questions", b"Hello!\n" * 3)
            command = ["sh", "-c", script, e2e.RUNNEL, questions, *arguments]
            chat = subprocess.run(command, cwd=self.folder, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(chat.returncode, 2, chat)
            self.assertIn(b": is where the messages come from; name another file", chat.stderr)
            self.assertEqual(questions.read_bytes(), b"Hello!\n" * 3)

    def test_a_link_stays(self):
        model, target = self.model(), self.write("target", b"old")
        link = self.folder / "link"
        link.symlink_to(target)
        self.succeed("logits", model, "--tokens", "1,2", "--out", link)
        self.assertTrue(link.is_symlink())
        n_vocab = json.loads(self.succeed("info", model, "--json").out)["model"]["n_vocab"]
        self.assertEqual(target.stat().st_size, 2 * n_vocab * 4)
        target.unlink()
        (self.folder / "other").symlink_to("link")
        self.succeed("logits", model, "--tokens", "1", "--out", self.folder / "other")
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.stat().st_size, n_vocab * 4)
        self.assertEqual(sorted(os.listdir(self.folder)), ["link", "model.gguf", "other", "target"])

    def test_a_file_that_has_lost_its_name(self):
        out = self.write("out", b"")
        with out.open("r+b") as file:
            out.unlink()
            command = [e2e.RUNNEL, "logits", e2e.DEMO, "--tokens", "1", "--out", f"/dev/fd/{file.fileno()}"]
            subprocess.run(command, check=True, pass_fds=[file.fileno()])
            self.assertEqual(len(file.read()), 4 * 4096)
        self.assertEqual(os.listdir(self.folder), [])

    def test_links_that_somebody_put_where_it_writes_first(self):
        victim, out = self.write("victim", b"precious"), self.folder / "out"
        script = 'ln -s "$1" "$2.part$$-0"; exec "$0" logits "$3" --tokens 1,2 --out "$2"'
        subprocess.run(["sh", "-c", script, e2e.RUNNEL, victim, out, e2e.DEMO], check=True, capture_output=True)
        self.assertEqual(victim.read_bytes(), b"precious")
        self.assertFalse(out.is_symlink())
        self.assertGreater(out.stat().st_size, 1000)

    def test_a_name_as_long_as_names_can_be(self):
        out = self.folder / ("x" * 255)
        for arguments in (("logits", "--tokens", "1", "--out"), ("quantize", e2e.DEMO), (*self.compare, "--svg")):
            self.succeed(*arguments, out)
        self.assertEqual(os.listdir(self.folder), [out.name])

    def test_permissions_stay(self):
        for mode in (0o600, 0o666):
            out = self.write("out", b"old")
            out.chmod(mode)
            self.succeed("logits", e2e.DEMO, "--tokens", "1,2", "--out", out)
            self.assertGreater(out.stat().st_size, 1000)
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), mode)

    def test_ctrl_c_while_a_pipe_has_no_reader(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with e2e.start("logits", e2e.DEMO, "--tokens", "1,2", "--out", pipe) as process:
            while process.poll() is None:
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
            self.assertEqual((process.returncode, process.stderr.read()), (130, b""))

    def ended(self, *arguments):
        """Asked to end while it writes a file beside the model; what is left."""
        with e2e.start(*arguments) as process:
            end = time.monotonic() + 60
            while len(os.listdir(self.folder)) < 2 and time.monotonic() < end:
                time.sleep(0.001)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=e2e.TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertEqual(os.listdir(self.folder), ["model.gguf"])

    def test_nothing_is_left_when_asked_to_end(self):
        model = self.model()
        tokens = ",".join(["1"] * 20000)
        self.ended("logits", model, "--tokens", tokens, "--out", self.folder / "logits.f32", "-t", "1")
        self.ended("synth", "--shape", "smollm2-135m", "--type", "q8_0", self.folder / "synth.gguf", "-t", "1")

    def test_figures_come_before_pictures(self):
        result = e2e.run(*self.compare, "--svg", "/dev/full")
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"recomputed", result.out)
        self.assertIn("/dev/full: cannot write: No space", result.err)
        folder = self.folder / "pictures"
        (folder / "attention-sinks.svg").mkdir(parents=True)
        result = e2e.run("inspect", e2e.DEMO, "-p", "Hello there", "--svg", folder)
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"attention on the sink", result.out)

    def test_a_reader_that_has_gone_does_not_keep_pictures_from_being_written(self):
        picture, folder = self.folder / "lines.svg", self.folder / "pictures"
        for arguments, written in (
            ((*self.compare, "--svg", picture), picture),
            (("inspect", e2e.DEMO, "-p", "Hello there", "--json", "--svg", folder), folder / "int8-error.svg"),
        ):
            with e2e.start(*arguments, stdin=subprocess.DEVNULL) as process:
                process.stdout.close()
                self.assertIn(b"wrote ", process.stderr.read())
                self.assertEqual(process.wait(timeout=e2e.TIMEOUT_S), 0)
            self.assertTrue(written.read_text().endswith("</svg>\n"))

    def test_places_for_pictures_are_tried_before_the_work(self):
        file, folder = self.write("file", b"a file"), self.folder / "folder"
        for path, why in ((self.folder / "no" / "picture.svg", "No such file"), (self.folder, "Is a directory")):
            self.fail_cleanly(*self.compare, "--svg", path, code=1, naming=f"{path}: cannot write: {why}")
        (folder / "massive-activations.svg").mkdir(parents=True)
        for path, why in ((file, "cannot make the folder"), (folder, "cannot write: Is a directory")):
            self.fail_cleanly("inspect", e2e.DEMO, "-p", "Hello there", "--svg", path, code=1, naming=why)
        self.fail_cleanly(*self.compare, "--tokens", 2, "--svg", file, code=1, naming="the stream has 2 tokens (--tokens; ")
        self.assertEqual(file.read_bytes(), b"a file")
        self.assertEqual(sorted(os.listdir(self.folder)), ["file", "folder"])

    def test_an_answer_that_was_cut_off_ends_its_line(self):
        path = self.write("talk.txt", b"You: Hello\nModel: How are")
        self.succeed("chat", "--greedy", "--transcript", path, stdin=b"Hello\n")
        self.assertEqual(path.read_bytes().split(b"\n")[1:3], [b"Model: How are", b"You: Hello"])


e2e.main()
