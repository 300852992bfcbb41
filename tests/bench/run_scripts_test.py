#!/usr/bin/env python3
"""Answers of bench/run.sh and tests/run.sh before they install or build anything: run_scripts_test.py"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = ("bench/run.sh", "tests/run.sh")


class RunScriptsTest(unittest.TestCase):
    """In a copy of the scripts alone, where every program that would install or build says so and fails."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.checkout = self.folder / "checkout"
        for name in (*SCRIPTS, "bench/setup.sh", "bench/matrices/demo.yaml"):
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.checkout / name)
        tools = self.folder / "tools"
        tools.mkdir()
        for tool in ("apt-get", "dpkg-query", "cmake", "ctest", "ninja"):
            (tools / tool).write_text("#!/bin/sh\necho STARTED\nexit 1\n")
            (tools / tool).chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")

    def run_script(self, *words, cwd=None):
        done = subprocess.run([*map(str, words)], cwd=cwd or self.checkout, env=self.environment, text=True,
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        return done.returncode, done.stdout, done.stderr

    def assert_refused(self, ended, said):
        code, out, error = ended
        self.assertEqual((code, out), (2, ""), error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertIn(said, error)

    def test_help_is_the_comment_in_front(self):
        for script in SCRIPTS:
            code, out, error = self.run_script(f"./{script}", "--help")
            self.assertEqual((code, error), (0, ""))
            self.assertIn(script, out)
            self.assertNotIn("STARTED", out)

    def test_a_wrong_matrix_is_a_line(self):
        self.assert_refused(self.run_script("./bench/run.sh", "dmo.yaml"), "dmo.yaml: found no such file")
        self.assert_refused(self.run_script("./bench/run.sh", "a", "b"), "expected one matrix at most")

    def test_another_shell_is_a_line(self):
        if shutil.which("dash") is None:
            self.skipTest("no dash")
        for script in SCRIPTS:
            self.assert_refused(self.run_script("dash", script), "expected bash")

    def test_links_and_other_folders_lead_to_the_checkout(self):
        (self.folder / "own.yaml").write_text("seed: 1\n")
        for script in SCRIPTS:
            link = self.folder / "link.sh"
            link.unlink(missing_ok=True)
            link.symlink_to(self.checkout / script)
            words = ["own.yaml"] if script == "bench/run.sh" else []
            _, out, error = self.run_script(link, *words, cwd=self.folder)
            self.assertIn("STARTED", out + error)
            self.assertNotIn("found no such file", error)

    def test_a_checkout_that_cannot_be_written_is_a_line(self):
        if os.geteuid() == 0:
            bind = f"mount --bind {self.checkout} {self.checkout} && mount -o remount,ro,bind {self.checkout}"
            start = ["unshare", "-m", "sh", "-c", f"{bind} && exec \"$@\"", "sh"]
            if self.run_script(*start, "true")[0] != 0:
                self.skipTest("mounts are not allowed here")
        else:
            self.checkout.chmod(0o555)
            start = []
        for script in SCRIPTS:
            self.assert_refused(self.run_script(*start, self.checkout / script, cwd=self.folder),
                                "cannot be written")


if __name__ == "__main__":
    unittest.main()
