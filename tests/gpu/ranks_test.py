#!/usr/bin/env python3
"""The checks of splits without a GPU. The program itself on backend cpu passes them. A learning rate of 0, a
missing reduction, a swapped gradient and a rank that hangs do not.

    ranks_test.py PLUMBLINE     run by CTest
"""
import array
import functools
import io
import json
import os
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import families  # noqa: E402
import gradients  # noqa: E402
import ranks  # noqa: E402
import reinforcement  # noqa: E402

PLUMBLINE = ""
SPLITS = [(2, 1, 1, {}), (1, 2, 1, {"pipeline_schedule": "zb-h1"})]


class RanksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.config = os.path.join(folder.name, "config.yaml")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"model": {**ranks.MODEL, "num_hidden_layers": 2}, "backend": "cpu", "seq_length": 32,
                       "micro_batch_size": 1,
                       "global_batch_size": 4, "warmup_steps": 1, "steps": 2}, file)

    def check(self, splits):
        out = io.StringIO()
        return ranks.check_listed(PLUMBLINE, self.config, out, splits, lambda number: False, lambda number,
                                  precision: False), out

    def test_the_program_passes(self):
        failures, out = self.check(SPLITS)
        self.assertEqual(failures, [])
        rows = [json.loads(line) for line in out.getvalue().splitlines()]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertGreater(row["gradient_norm"], 0)
            self.assertLess(row["gradient_difference"][0], 1e-4)

    def test_fp16_passes(self):
        self.assertEqual(ranks.check_fp16(PLUMBLINE, self.config, io.StringIO()), [])

    def test_packed_chats_pass(self):
        self.assertEqual(ranks.check_packed_chats(PLUMBLINE, self.config, io.StringIO(),
                                                  [(2, 1, 1, {}), (1, 1, 2, {})]), [])

    def test_narrow_types_and_mixtures_pass_and_fail_without_an_update(self):
        split = (2, 1, 1, {})
        checks = {
            "bf16": lambda: ranks.check_listed(PLUMBLINE, self.config, io.StringIO(), [split],
                                               lambda number: True, lambda number, precision: False),
            "fp8": lambda: self.fp8_failures(split),
            "mixture": lambda: ranks.check_mixture(
                PLUMBLINE, ranks.with_model(self.config, "mixtral"), io.StringIO(), "mixtral", split),
        }
        run = ranks.run_with_gradients

        def no_update(plumbline, config, settings):
            return run(plumbline, config,
                       {**settings, **({"learning_rate": "0"} if settings["world_size"] > 1 else {})})

        for name, check in checks.items():
            with self.subTest(name):
                self.assertEqual(check(), [])
                with mock.patch.object(ranks, "run_with_gradients", no_update):
                    failures = check()
                self.assertTrue(any("gradients are" in failure for failure in failures), failures)

    def fp8_failures(self, split):
        with mock.patch.object(ranks, "FP8_SPLITS", [split]):
            return ranks.check_fp8(PLUMBLINE, self.config, io.StringIO())

    def record(self, **measured):
        return {"measurement": {"loss": 1, **measured}, "prediction": {"device_memory": {"ranks": [
            {"total_bytes": 5 << 30}]}}}

    def test_lanes_of_no_time_fail(self):
        lanes = {lane: {"time_s": 0, "exposed_s": 0} for lane in ("tensor", "data", "context", "host")}
        with mock.patch.object(ranks, "run", lambda *_: (self.record(lanes=lanes), "")):
            self.assertEqual(len(ranks.check_lanes("", self.config, io.StringIO())), 4)

    def test_device_memory_far_from_its_prediction_fails(self):
        for total, count in ((5 << 30, 0), (9 << 30, 1)):
            row = {"allocated_bytes": 1, "reserved_bytes": 2, "total_bytes": total, "context_bytes": 1,
                   "ranks_on_device": 1, "device_used_bytes": 10 << 30}
            memory = {"ranks": [row], "source": "NVML", "device_bytes": 80 << 30}
            out = io.StringIO()
            out.name = "out.jsonl"
            with mock.patch.object(ranks, "run", lambda *_: (self.record(device_memory=memory), "")):
                self.assertEqual(len(ranks.check_device_memory("", self.config, out, ((1, 1, 1),))), count)

    def test_wrong_gradients_fail(self):
        for fault in ("learning rate 0", "missing reduction", "swapped", "lost", "not finite"):
            with self.subTest(fault):
                failures = self.failures_with(fault)
                self.assertEqual(len(failures), 1, failures)
                self.assertIn("tp2", failures[0])

    def failures_with(self, fault):
        run = ranks.run_with_gradients

        def faulty(plumbline, config, settings):
            split = settings["world_size"] > 1
            if split and fault == "learning rate 0":
                settings = {**settings, "learning_rate": "0"}
            record, found, problem = run(plumbline, config, settings)
            query, other = (f"model.layers.{layer}.self_attn.q_proj.weight" for layer in (0, 1))
            if split and fault == "missing reduction":
                found = {name: array.array("f", (value / 2 for value in values))
                         for name, values in found.items()}
            elif split and fault == "swapped":
                found[query], found[other] = found[other], found[query]
            elif split and fault == "lost":
                del found[query]
            elif split and fault == "not finite":
                found[query][3] = float("nan")
            return record, found, problem

        with mock.patch.object(ranks, "run_with_gradients", faulty):
            return self.check(SPLITS[:1])[0]

    def test_families_pass_and_a_wrong_gradient_fails(self):
        out = io.StringIO()
        self.assertEqual(families.check_family(PLUMBLINE, "qwen3_moe", out, "cpu"), [])
        self.assertEqual(json.loads(out.getvalue())["gradient_difference"][0], 0)
        run = ranks.run_with_gradients

        def faulty(plumbline, config, settings):
            record, found, problem = run(plumbline, config, settings)
            if not settings:
                found["model.norm.weight"][0] *= 2
            return record, found, problem

        with mock.patch.object(ranks, "run_with_gradients", faulty):
            failures = families.check_family(PLUMBLINE, "qwen3", out, "cpu")
        self.assertEqual(len(failures), 1)
        self.assertIn("qwen3: the gradient of model.norm.weight is", failures[0])

    def test_reinforcement_passes_and_wrong_numbers_and_memory_fail(self):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({**reinforcement.step_config("h100-sxm-80gb"),
                       "model": {**ranks.MODEL, "hidden_size": 64, "num_hidden_layers": 2}}, file)
        for case in reinforcement.RUNS[1:4]:
            out = io.StringIO()
            self.assertEqual(reinforcement.check_run(PLUMBLINE, self.config, out, case, "cpu"), [])
            found = json.loads(out.getvalue())
            self.assertEqual(len(found["critic_losses"]), 3)
            for spoil, words in ((lambda of: of["losses"].__setitem__(2, of["losses"][2] + 2e-4), "losses"),
                                 (lambda of: of["rewards"].__setitem__(0, float("nan")), "rewards"),
                                 (lambda of: of["critic_losses"].pop(), "critic_losses"),
                                 (lambda of: of.__setitem__("staleness", []), "staleness"),
                                 (lambda of: of["phases"][-1].__setitem__("peak_bytes", 7), "7 bytes")):
                spoiled = json.loads(out.getvalue())
                spoil(spoiled)
                failures = (reinforcement.number_failures("x", spoiled, found)
                            + reinforcement.memory_failures("x", spoiled))
                self.assertEqual(len(failures), 1, failures)
                self.assertIn(words, failures[0])

    def test_what_hangs_is_ended(self):
        program = os.path.join(os.path.dirname(self.config), "hangs")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho rank 1 has not reached it >&2\nsleep 100 &\nwait\n")
        os.chmod(program, 0o755)
        begin = time.monotonic()
        with mock.patch.object(ranks, "LIMIT_S", 1):
            record, problem = ranks.run(program, self.config, {})
        self.assertIsNone(record)
        self.assertIn("hangs: ended after 1 s: ['rank 1 has not reached it']", problem)
        self.assertLess(time.monotonic() - begin, 50)

    def test_later_checks_run(self):
        def ends(_plumbline, _config, _out):
            raise OSError("gone")

        def fails(_plumbline, _config, _out):
            return ["found"]

        out = os.path.join(os.path.dirname(self.config), "out.jsonl")
        with mock.patch.object(ranks, "SHORT",
                               (ends, fails)), mock.patch.object(sys, "argv",
                                                                 ["ranks.py", "x", out, "--short"]), \
                mock.patch("sys.stdout",
                           new_callable=io.StringIO) as printed, self.assertRaises(SystemExit) as ended:
            ranks.main()
        self.assertEqual(ended.exception.code, 1)
        self.assertEqual(printed.getvalue(), "ends: OSError: gone\nfound\n2 failures\n")

    def test_checks_at_once_that_fail_run_again_by_themselves(self):
        calls = []

        def fails(name, times):
            calls.append(name)
            return [f"{name} {'hangs' if name == 'c' else 'fails'}"] if calls.count(name) <= times else []

        checks = [functools.partial(fails, name, times)
                  for name, times in (("a", 1), ("b", 9), ("c", 9), ("d", 0))]
        with mock.patch("sys.stdout", new_callable=io.StringIO) as printed:
            self.assertEqual(ranks.at_once(3, checks), ["b fails", "c hangs"])
        self.assertEqual(printed.getvalue(),
                         "note: passed alone, after it failed beside others: a fails\n")
        self.assertEqual(sorted(calls), ["a", "a", "b", "b", "c", "d"])

    def test_differences(self):
        one = array.array("f", (3, 4))
        for found, wanted, expected in (({"a": one}, {"a": one}, (0.0, "a")),
                                        ({"a": array.array("f", (3, 5))}, {"a": one}, (0.2, "a")),
                                        ({}, {"a": one}, (float("inf"), "a")),
                                        ({"a": one}, {"a": one[:1]}, (float("inf"), "a")),
                                        ({"a": one}, {"a": array.array("f", (0, 0))}, (float("inf"), "a"))):
            self.assertEqual(gradients.worst_difference(found, wanted), expected)


if __name__ == "__main__":
    PLUMBLINE = sys.argv.pop(1)
    unittest.main()
