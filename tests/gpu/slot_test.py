#!/usr/bin/env python3
"""The driver of a GPU slot without a GPU. Checks its output when steps fail, hang or are killed, where
libraries are found, and that every part's estimates fit its budget. Also a slot that outlives its call, and
the size of the upload.

    slot_test.py            run by CTest
"""
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import bundle  # noqa: E402
import libraries  # noqa: E402
import session  # noqa: E402
import slot  # noqa: E402
import steps  # noqa: E402


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Options:
    def __init__(self, out):
        self.programs, self.out, self.hardware, self.end = "/nowhere", out, "h200-sxm-141gb", math.inf


def source(path):
    with open(os.path.join(HERE, "..", "..", path), encoding="utf-8") as file:
        return file.read()


class SlotTest(unittest.TestCase):
    def test_every_operator_is_checked_on_the_gpu(self):
        listed = re.findall(r"PLUMBLINE_OPERATOR\(\s*[\w:]+,\s*(\w+)", source("kernels/operator_list.inc"))
        self.assertGreater(len(listed), 70)
        files = re.search(r"operator_test_cases OBJECT ([^)]*)\)",
                          source("tests/kernels/CMakeLists.txt")).group(1).split()
        called = set(re.findall(r"\w+", "".join(source(f"tests/kernels/{file}") for file in files)))
        self.assertEqual([name for name in listed if name not in called], [])
        step = next(step for step in steps.PART1 if step.name == "operators")
        self.assertEqual(step.command, ["{bin}/cuda_operators_test",
                                        "--gtest_filter=-LayerSizes*:*LayerSizes*"])

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = self.folder.name

    def run_part(self, listed, budget=60, end=math.inf):
        kept = steps.PARTS, steps.BUDGET
        steps.PARTS, steps.BUDGET = {1: listed}, {1: budget}
        options = Options(self.out)
        options.end = end
        try:
            return slot.run_part(1, options)
        finally:
            steps.PARTS, steps.BUDGET = kept

    def test_every_step_ends_in_a_line(self):
        failed = self.run_part([
            steps.Step("rows", ["sh", "-c",
                                "echo '{\"a\": 1}'; echo words; printf '{\\n \"b\": \"}\"\\n}\\n'"], 1, 9),
            steps.Step("fails", ["sh", "-c", "echo '{\"c\": 3}'; exit 7"], 1, 9),
            steps.Step("hangs", ["sh", "-c", "echo '{\"d\": 4}'; sleep 60"], 1, 0.5),
            steps.Step("needs", ["true"], 1, 9, needs="{out}/there-is-none"),
        ])
        self.assertEqual(failed, ["fails", "hangs", "needs"])
        rows = rows_of(f"{self.out}/part1.jsonl")
        self.assertEqual([row["result"] for row in rows if "result" in row],
                         [{"a": 1}, {"b": "}"}, {"c": 3}, {"d": 4}])
        self.assertEqual([row["ended"] for row in rows if "ended" in row],
                         ["ok", "exit code 7", "ended for its time"])
        self.assertIn("is missing", rows[-1]["left_out"])
        with open(f"{self.out}/part1.log", encoding="utf-8") as log:
            self.assertEqual(log.read(), "[rows] words\n")

    def test_messages_in_the_middle_of_a_record_spoil_nothing(self):
        script = ("printf '{\\n'; sleep 0.2; echo noise >&2; "
                  "sleep 0.2; printf ' \"a\": 1\\n}\\n{ no\\nJSON }\\n[{\"b\"'")
        self.assertEqual(self.run_part([steps.Step("record", ["sh", "-c", script], 1, 9)]), [])
        self.assertEqual([row["result"] for row in rows_of(f"{self.out}/part1.jsonl") if "result" in row],
                         [{"a": 1}])
        with open(f"{self.out}/part1.log", encoding="utf-8") as log:
            self.assertEqual(log.read(), "[record] noise\n[record] { no\n[record] JSON }\n[record] [{\"b\"\n")

    def test_what_never_passed_comes_first_and_what_passed_for_the_same_sources_is_skipped(self):
        programs = tempfile.TemporaryDirectory()
        self.addCleanup(programs.cleanup)

        def ran(sources, listed):
            with open(f"{programs.name}/sources", "w", encoding="utf-8") as file:
                file.write(sources)
            with mock.patch.object(Options, "__init__", lambda options, out: options.__dict__.update(
                    programs=programs.name, out=out, hardware="h200-sxm-141gb", end=math.inf)):
                before = len(rows_of(f"{self.out}/part1.jsonl")) if os.path.exists(
                    f"{self.out}/part1.jsonl") else 0
                self.run_part(listed)
            return [(row["step"], next(key for key in ("ended", "skipped") if key in row))
                    for row in rows_of(f"{self.out}/part1.jsonl")[before:]]

        old = steps.Step("old", ["true"], 1, 9)
        fails = steps.Step("fails", ["false"], 1, 9)
        new = steps.Step("new", ["true"], 1, 9)
        needs = steps.Step("needs", ["true"], 1, 9, needs="/bin/true")
        self.assertEqual(ran("a", [old, fails]), [("old", "ended"), ("fails", "ended")])
        self.assertEqual(ran("a", [needs, old, fails, new]),
                         [("fails", "ended"), ("new", "ended"), ("old", "skipped"), ("needs", "ended")])
        self.assertEqual(ran("b", [old, fails]), [("fails", "ended"), ("old", "ended")])
        changed = steps.Step("old", ["true", "more"], 1, 9)
        self.assertEqual(ran("b", [changed]), [("old", "ended")])
        self.assertEqual(ran("", [changed]), [("old", "ended")])

    def test_a_part_that_has_used_its_budget_leaves_the_rest_out(self):
        self.run_part([steps.Step("long", ["sleep", "60"], 1, 60), steps.Step("next", ["true"], 1, 9)],
                      budget=5.2)
        rows = rows_of(f"{self.out}/part1.jsonl")
        self.assertEqual(rows[0]["ended"], "ended for its time")
        self.assertIn("is used up", rows[1]["left_out"])

    def test_a_slot_that_has_used_its_seconds_leaves_the_rest_out(self):
        self.run_part([steps.Step("next", ["true"], 1, 9)], end=time.monotonic() + 4)
        self.assertIn("is used up", rows_of(f"{self.out}/part1.jsonl")[0]["left_out"])

    def test_processes_share_the_tests_of_a_step(self):
        script = ("echo \"{\\\"shard\\\": $GTEST_SHARD_INDEX, \\\"of\\\": $GTEST_TOTAL_SHARDS}\"; "
                  "exit $((GTEST_SHARD_INDEX / 2 * 5))")
        self.assertEqual(self.run_part([steps.Step("tests", ["sh", "-c", script], 1, 9, processes=3)]),
                         ["tests"])
        rows = rows_of(f"{self.out}/part1.jsonl")
        self.assertEqual(sorted(row["result"]["shard"] for row in rows if "result" in row), [0, 1, 2])
        self.assertEqual({row["result"]["of"] for row in rows if "result" in row}, {3})
        self.assertEqual(rows[-1]["ended"], "exit code 5")

    def test_runs_are_predicted_for_the_card_that_is_found(self):
        for card, preset in (("NVIDIA H200", "h200-sxm-141gb"), ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
                             ("NVIDIA H100 PCIe", "h100-pcie-80gb"), ("NVIDIA H200 NVL", "h200-nvl-141gb"),
                             ("", steps.HARDWARE)):
            self.assertEqual(steps.hardware_of(card), preset)
        asked = steps.Step("run", ["sh", "-c",
                                   "cat {config}; echo; echo \"{\\\"a\\\": "
                                   "\\\"$PLUMBLINE_GPU_HARDWARE\\\"}\""], 1, 9,
                           config={"hardware": steps.HARDWARE, "steps": 1})
        self.assertEqual(self.run_part([asked]), [])
        rows = [row["result"] for row in rows_of(f"{self.out}/part1.jsonl") if "result" in row]
        self.assertEqual(rows, [{"hardware": "h200-sxm-141gb", "steps": 1}, {"a": "h200-sxm-141gb"}])

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
                with open(f"/proc/{pid}/environ", "rb") as file, open(f"/proc/{pid}/stat",
                                                                      encoding="utf-8") as stat:
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
        # A machine lent for a quarter of an hour takes two to three minutes to start.
        self.assertLessEqual(sum(steps.BUDGET[part] for part in (1, 2, 3)), 12 * 60)


class SessionTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out, self.to = f"{self.folder.name}/out", f"{self.folder.name}/to"

    def call(self, *words):
        return subprocess.run([sys.executable, f"{HERE}/session.py", *words], capture_output=True, text=True,
                              check=False,
                              timeout=60)

    def names_in(self, data):
        with tarfile.open(fileobj=io.BytesIO(data)) as packed:
            return packed.getnames()

    def test_a_slot_outlives_the_call_that_starts_it(self):
        script = (f"echo begun; while [ ! -e {self.out}/go ]; do sleep 0.05; done; "
                  f"echo 1 >{self.out}/rows; echo done; exit 5")
        self.assertEqual(self.call("start", self.out, "sh", "-c", script).returncode, 0)
        self.assertIn("found a slot that runs", self.call("start", self.out, "true").stderr)
        waited = self.call("wait", self.out, "0.5", self.to)
        self.assertEqual((waited.returncode, waited.stdout), (session.RUNNING, "begun\nstill running\n"))
        with open(f"{self.to}/results.tar.gz", "rb") as file:
            self.assertIn("results/session.log", self.names_in(file.read()))
        with open(f"{self.out}/go", "w", encoding="utf-8"):
            pass
        waited = self.call("wait", self.out, "30", self.to)
        self.assertEqual((waited.returncode, waited.stdout), (5, "begun\ndone\n"))
        with open(f"{self.to}/results.tar.gz", "rb") as file:
            self.assertIn("results/rows", self.names_in(file.read()))

    def test_results_come_in_pieces_of_what_a_call_brings_back(self):
        os.makedirs(self.out)
        for name, size in (("small", 10), ("large", 3000), ("too-large", 5000)):
            with open(f"{self.out}/{name}", "wb") as file:
                file.write(os.urandom(size))
        with mock.patch.object(session, "PIECE", 1500), mock.patch("sys.stdout",
                                                                   new_callable=io.StringIO) as said:
            session.fetch(self.out, self.to)
        self.assertIn("too-large: 5000 bytes are left there", said.getvalue())
        data = b""
        for name in sorted(os.listdir(self.to)):
            with open(f"{self.to}/{name}", "rb") as file:
                data += file.read()
        self.assertEqual(self.names_in(data), ["results/small", "results/large"])
        self.assertGreater(len(os.listdir(self.to)), 1)


class BundleTest(unittest.TestCase):
    def test_the_tree_leaves_the_room_for_the_archive(self):
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, size in (("tracked", 1000), ("untracked", 200), ("ignored", 30), (".gitignore", 0)):
                with open(f"{root}/{name}", "wb") as file:
                    file.write(b"ignored\n" if name == ".gitignore" else b"x" * size)
            subprocess.run(["git", "-C", root, "add", "tracked"], check=True)
            self.assertEqual(bundle.room(root), 64 * 2**20 - 1000 - 200 - len("ignored\n"))

    def test_unpacking_needs_python_alone(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(f"{root}/from/bin")
            with open(f"{root}/from/bin/program", "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n")
            os.chmod(f"{root}/from/bin/program", 0o755)
            os.symlink("program", f"{root}/from/bin/other")
            with tarfile.open(f"{root}/packed.tar.xz", "w:xz") as packed:
                packed.add(f"{root}/from", "bundle")
            subprocess.run([sys.executable, f"{HERE}/bundle.py", "unpack", f"{root}/packed.tar.xz",
                            f"{root}/to"], check=True,
                           env={"PATH": "/nowhere"})
            self.assertTrue(os.access(f"{root}/to/bundle/bin/other", os.X_OK))
            self.assertEqual(os.readlink(f"{root}/to/bundle/bin/other"), "program")


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
        # Libraries that others load by name lie beside them.
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
