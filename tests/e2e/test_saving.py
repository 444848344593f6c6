"""runnel chat --session and --transcript through pipes: what comes back, what is refused, what a signal leaves."""

import os
import resource
import signal
import subprocess
import time

import e2e

LINES = [e2e.QUESTION, "At 7 pm.", "Yes, please.", e2e.OTHER_QUESTION]
LIVELY = ["--temp", "1.2", "--seed", "5", "--repetition-penalty", "1.1", "-n", "30"]


def said(lines):
    return "".join(line + "\n" for line in lines).encode()


class Sessions(e2e.TestCase):
    def setUp(self):
        super().setUp()
        self.session = self.folder / "evening.session"

    def chat(self, *arguments, lines=()):
        return self.succeed("chat", "--session", self.session, *arguments, stdin=said(lines))

    def begin(self, *arguments):
        """A program that has answered once and waits for the next line."""
        process = e2e.start("chat", "--session", self.session, *arguments)
        self.addCleanup(process.kill)
        process.stdin.write(said(LINES[:1]))
        process.stdin.flush()
        return process

    def test_one_conversation_in_many_runs(self):
        for window in ("60", "400"):
            whole = self.succeed("chat", "--window", window, *LIVELY, stdin=said(LINES)).out
            answers = b"".join(self.chat("--window", window, *LIVELY, lines=[line]).out for line in LINES)
            self.assertEqual(answers, whole)
            self.session.unlink()

    def test_a_packed_model_is_the_same_each_time(self):
        whole = self.succeed("chat", "--int8", *LIVELY, stdin=said(LINES[:2])).out
        answers = b"".join(
            self.chat("--int8", "-t", threads, *LIVELY, lines=[line]).out
            for threads, line in zip(("1", "2"), LINES)
        )
        self.assertEqual(answers, whole)

    def test_a_new_session_is_made_at_once(self):
        result = self.chat()
        self.assertEqual((result.out, result.err), (b"", ""))
        self.assertTrue(self.session.exists())
        self.assertEqual(os.listdir(self.folder), ["evening.session"])

    def test_an_empty_file_is_a_session_not_made_yet(self):
        self.session.write_bytes(b"")
        self.assertEqual(self.chat("--greedy", lines=LINES[:1]).out.decode(), e2e.ANSWER + "\n")
        self.assertTrue(self.session.read_bytes().startswith(b"runnelS"))

    def test_saved_on_a_signal_while_it_waits(self):
        whole = self.succeed("chat", "--greedy", stdin=said(LINES[:2])).out
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.begin("--greedy") as process:
                self.assertEqual(process.stdout.readline().decode(), e2e.ANSWER + "\n")
                process.send_signal(number)
                process.wait(timeout=60)
                self.assertEqual(process.returncode, 128 + number)
            self.assertEqual(self.chat("--greedy", lines=LINES[1:2]).out, whole.split(b"\n", 1)[1])
            self.session.unlink()

    def test_a_chat_that_is_not_kept_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            with e2e.start("chat", "--forever") as process:
                process.stdin.write(b"Hello!\n")
                process.stdin.flush()
                self.assertTrue(process.stdout.read(100))
                process.send_signal(number)
                process.communicate(timeout=60)
                self.assertEqual(process.returncode, -number)

    def test_saved_on_ctrl_c_in_an_answer(self):
        with self.begin("--greedy", "--forever") as process:
            process.stdout.read(300)
            made = self.session.stat().st_size
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGINT)  # a second one does not keep it from saving
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
        self.assertGreater(self.session.stat().st_size, made)
        self.assertTrue(self.chat("--greedy", lines=["Go on."]).out)

    def test_saved_when_asked_to_end_in_an_answer(self):
        with self.begin("--greedy", "--forever") as process:
            process.stdout.read(300)
            made = self.session.stat().st_size
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGHUP)  # does not keep it from saving
            process.communicate(timeout=60)
            self.assertIn(process.returncode, (128 + signal.SIGTERM, 128 + signal.SIGHUP, -signal.SIGHUP))
        self.assertGreater(self.session.stat().st_size, made)

    def test_saved_when_the_reader_has_gone(self):
        with self.begin("--greedy", "--forever") as process:
            process.stdout.read(100)
            made = self.session.stat().st_size
            process.stdout.close()
            process.stdout = None
            process.wait(timeout=60)
        self.assertGreater(self.session.stat().st_size, made)

    def test_the_system_prompt_comes_back(self):
        self.chat("--system", "You are a bank.", lines=LINES[:1])
        result = self.chat("--system", "You are a tree.", lines=LINES[1:2])
        self.assertIn("--system does not count", result.err)
        self.assertEqual(self.chat("--system", "You are a bank.", lines=LINES[1:2]).err, "")

    def test_other_settings_and_models_are_refused(self):
        self.chat("--window", "60", lines=LINES[:1])
        kept = self.session.read_bytes()
        arguments = ["chat", "--session", self.session]
        self.fail_cleanly(*arguments, "--window", "61", code=1, naming="open it with window 60")
        self.fail_cleanly(*arguments, "--window", "60", "--cache", "int8", code=1, naming="open it with cache f16")
        self.fail_cleanly(*arguments, "--window", "60", "--int8", code=1, naming="open it with int8 false")
        self.fail_cleanly(
            *arguments, "--window", "60", "--template", "chatml", code=1, naming="this one has chatml"
        )
        model = e2e.shared("models/stories260K-f32.gguf")
        self.fail_cleanly(
            "chat", model, "--template", "chatml", "--session", self.session, code=1, naming="another model"
        )
        self.assertEqual(self.session.read_bytes(), kept)

    def test_damaged_and_foreign_files_are_refused_and_stay(self):
        self.chat(lines=LINES[:1])
        whole = self.session.read_bytes()
        for damaged, why in (
            (whole[:-1], "cut short"),
            (whole[:20], "cut short"),
            (whole + b"\n", "size of the file"),
            (whole[:1000] + bytes([whole[1000] ^ 4]) + whole[1001:], "the file is damaged"),
            (whole[:8] + b"\x07" + whole[9:], "a newer runnel"),
            (b"Dear diary\n", "no session file"),
        ):
            self.session.write_bytes(damaged)
            self.fail_cleanly("chat", "--session", self.session, stdin=b"Hello\n", code=1, naming=why)
            self.assertEqual(self.session.read_bytes(), damaged)
        self.fail_cleanly("chat", "--session", self.folder, code=1, naming="a directory")

    def test_places_that_cannot_be_written_are_told_before_anything_is_said(self):
        place = self.folder / "none" / "evening.session"
        self.fail_cleanly("chat", "--session", place, stdin=said(LINES), code=1, naming="No such file")

    def test_a_full_disk_leaves_the_old_session(self):
        self.chat(lines=LINES[:1])
        kept = self.session.read_bytes()

        def fill():
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

        result = subprocess.run(
            [e2e.RUNNEL, "chat", "--session", str(self.session)],
            input=said(LINES[1:2]),
            capture_output=True,
            preexec_fn=fill,
            timeout=e2e.TIMEOUT_S,
        )
        self.assertEqual(result.returncode, 1, result)
        self.assertIn(b"cannot be written (after", result.stderr)
        self.assertEqual(self.session.read_bytes(), kept)
        self.assertEqual(os.listdir(self.folder), ["evening.session"])

    def test_what_a_killed_run_left_goes(self):
        (self.folder / "evening.session.partial-0").write_bytes(b"half a session")
        self.chat(lines=LINES[:1])
        self.assertEqual(os.listdir(self.folder), ["evening.session"])


class Transcripts(e2e.TestCase):
    def test_who_said_what_is_appended(self):
        path = self.folder / "talk.txt"
        path.write_text("before\n")
        answers = self.succeed("chat", "--greedy", "--transcript", path, stdin=said(LINES[:2])).out.decode()
        first, second = answers.splitlines()
        self.assertEqual(
            path.read_text(), f"before\nYou: {LINES[0]}\nModel: {first}\nYou: {LINES[1]}\nModel: {second}\n"
        )

    def test_each_turn_is_in_the_file_when_it_is_over(self):
        path = self.folder / "talk.txt"
        with e2e.start("chat", "--greedy", "--transcript", path) as process:
            process.stdin.write(said(LINES[:1]))
            process.stdin.flush()
            process.stdout.readline()
            wanted, end = f"You: {LINES[0]}\nModel: {e2e.ANSWER}\n", time.monotonic() + 60
            while path.read_text() != wanted and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(path.read_text(), wanted)
            process.kill()

    def test_a_place_that_cannot_be_written(self):
        self.fail_cleanly("chat", "--transcript", self.folder, stdin=b"Hello\n", code=1, naming="transcript")


e2e.main()
