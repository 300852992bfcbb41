#!/usr/bin/env python3
"""The driver of a GPU slot without a GPU: what it writes when steps fail, hang or are killed, where libraries are found, and
whether every part's own estimates fit its budget.

    slot_test.py            run by CTest
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import libraries  # noqa: E402
import slot  # noqa: E402
import steps  # noqa: E402


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Options:
    def __init__(self, out):
        self.programs, self.out = "/nowhere", out


class SlotTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = self.folder.name

    def run_part(self, listed, budget=60):
        kept = steps.PARTS, steps.BUDGET
        steps.PARTS, steps.BUDGET = {1: listed}, {1: budget}
        try:
            return slot.run_part(1, Options(self.out))
        finally:
            steps.PARTS, steps.BUDGET = kept

    def test_every_step_ends_in_a_line(self):
        failed = self.run_part([
            steps.Step("rows", ["sh", "-c", "echo '{\"a\": 1}'; echo words; printf '{\\n \"b\": \"}\"\\n}\\n'"], 1, 9),
            steps.Step("fails", ["sh", "-c", "echo '{\"c\": 3}'; exit 7"], 1, 9),
            steps.Step("hangs", ["sh", "-c", "echo '{\"d\": 4}'; sleep 60"], 1, 0.5),
            steps.Step("needs", ["true"], 1, 9, needs="{out}/there-is-none"),
        ])
        self.assertEqual(failed, ["fails", "hangs", "needs"])
        rows = rows_of(f"{self.out}/part1.jsonl")
        self.assertEqual([row["result"] for row in rows if "result" in row], [{"a": 1}, {"b": "}"}, {"c": 3}, {"d": 4}])
        self.assertEqual([row["ended"] for row in rows if "ended" in row], ["ok", "exit code 7", "ended for its time"])
        self.assertIn("is missing", rows[-1]["left_out"])
        with open(f"{self.out}/part1.log", encoding="utf-8") as log:
            self.assertEqual(log.read(), "[rows] words\n")

    def test_a_part_that_has_used_its_budget_leaves_the_rest_out(self):
        self.run_part([steps.Step("long", ["sleep", "60"], 1, 60), steps.Step("next", ["true"], 1, 9)], budget=5.2)
        rows = rows_of(f"{self.out}/part1.jsonl")
        self.assertEqual(rows[0]["ended"], "ended for its time")
        self.assertIn("are used up", rows[1]["left_out"])

    def test_lines_outlive_a_kill(self):
        script = """
import sys
sys.path.insert(0, sys.argv[1])
import slot, steps
steps.PARTS = {1: [steps.Step("s", ["sh", "-c", "echo '{\\"a\\": 1}'; sleep 60"], 1, 99)]}
sys.argv = ["slot", ".", sys.argv[2], "--part", "1"]
slot.main()
"""
        process = subprocess.Popen([sys.executable, "-c", script, HERE, self.out], start_new_session=True)
        path = f"{self.out}/part1.jsonl"
        for _ in range(200):
            if os.path.exists(path) and os.path.getsize(path):
                break
            time.sleep(0.05)
        process.kill()
        process.wait()
        self.assertEqual(rows_of(path), [{"step": "s", "result": {"a": 1}}])
        for pid in filter(str.isdigit, os.listdir("/proc")):  # the step outlives its driver
            try:
                with open(f"/proc/{pid}/environ", "rb") as file, open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                    if b"PLUMBLINE_SLOT=" + str(process.pid).encode() in file.read():
                        os.kill(int(pid), signal.SIGKILL)
                    stat.read()
            except OSError:
                continue

    def test_fixed_estimates_fit_the_budgets(self):
        for part, listed in steps.PARTS.items():
            self.assertLess(sum(step.fixed for step in listed), steps.BUDGET[part], part)
            for step in listed:
                self.assertLess(step.fixed, step.limit, step.name)
        self.assertLessEqual(sum(steps.BUDGET[part] for part in (1, 2, 3)), 25 * 60)


class LibrariesTest(unittest.TestCase):
    def found(self, files, named=""):
        with tempfile.TemporaryDirectory() as root:
            for path in files:
                path = os.path.join(root, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8"):
                    pass
            named = os.path.join(root, named) if named else ""
            rows = libraries.find(root, named)
            links = os.path.join(root, "host")
            libraries.link(rows, links)
            return ({row["library"]: row["found"] and os.path.relpath(row["found"], root) for row in rows},
                    sorted(os.listdir(links)))

    TORCH = "opt/torch/.venv/lib/python3.12/site-packages/nvidia/"

    def test_those_of_a_pytorch_installation(self):
        found, links = self.found([
            self.TORCH + "cu13/lib/libcublasLt.so.13", self.TORCH + "cu13/lib/libcupti.so.13",
            self.TORCH + "cu13/lib/libnvrtc.so.13", self.TORCH + "cu13/lib/libnvrtc-builtins.so.13.0",
            self.TORCH + "nccl/lib/libnccl.so.2", self.TORCH + "cudnn/lib/libcudnn.so.9",
            self.TORCH + "cudnn/lib/libcudnn_graph.so.9"])
        self.assertNotIn(None, found.values())
        self.assertEqual(found["libnccl.so.2"], self.TORCH + "nccl/lib/libnccl.so.2")
        # What libraries load by name lies beside them.
        self.assertIn("libcudnn_graph.so.9", links)
        self.assertIn("libnvrtc-builtins.so.13.0", links)

    def test_a_toolkit_comes_first_and_a_named_folder_before_it(self):
        files = ["usr/local/cuda-13.0/lib64/libcublasLt.so.13", self.TORCH + "cu13/lib/libcublasLt.so.13",
                 "usr/lib/x86_64-linux-gnu/libnccl.so.2", "mine/libcublasLt.so.13"]
        found, _ = self.found(files)
        self.assertEqual(found["libcublasLt.so.13"], "usr/local/cuda-13.0/lib64/libcublasLt.so.13")
        self.assertEqual(found["libnccl.so.2"], "usr/lib/x86_64-linux-gnu/libnccl.so.2")
        self.assertIsNone(found["libcudnn.so.9"])
        self.assertEqual(self.found(files, "mine")[0]["libcublasLt.so.13"], "mine/libcublasLt.so.13")


if __name__ == "__main__":
    unittest.main()
