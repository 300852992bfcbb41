#!/usr/bin/env python3
"""The package as a user has it. package_test.py [PROGRAM]"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import unittest

import pandas

import plumbline

KEYS = dict(
    model="llama-3.1-8b", hardware="h100", gpus=64, tp=2, pp=4, gbs=512, seq_length=4096, precision="bf16"
)


class Predictions(unittest.TestCase):
    def test_attributes_are_the_records(self):
        prediction = plumbline.predict(**KEYS)
        whole = prediction.to_dict()["prediction"]
        self.assertEqual(prediction.step_s, whole["time"]["step_s"])
        self.assertEqual(prediction.peak_bytes, whole["memory"]["peak_bytes"])
        self.assertEqual(prediction.tokens_per_s, whole["throughput"]["tokens_per_s"])
        self.assertEqual(prediction.mfu, whole["throughput"]["mfu"])
        self.assertEqual(len(prediction.memory["ranks"]), 64)
        self.assertEqual(prediction.config["tensor_model_parallel_size"], 2)
        for name in ("traffic", "device_memory", "lanes"):
            self.assertEqual(getattr(prediction, name), whole[name])
        self.assertIn("tokens/s", prediction._repr_html_())

    def test_forms_of_a_configuration(self):
        expected = plumbline.predict(**KEYS).step_s
        self.assertEqual(plumbline.predict(KEYS).step_s, expected)
        self.assertEqual(plumbline.predict({**KEYS, "tp": 8}, tp=2).step_s, expected)
        rest = {key: value for key, value in KEYS.items() if key != "model"}
        self.assertEqual(plumbline.predict("llama-3.1-8b", **rest).step_s, expected)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.yaml"
            path.write_text("".join(f"{key}: {value}\n" for key, value in KEYS.items()))
            self.assertEqual(plumbline.predict(path).step_s, expected)

    def test_errors_are_one_line(self):
        for call, kind, text in [
            (
                lambda: plumbline.predict(KEYS, tp=3),
                plumbline.InputError,
                "world_size: found 64",
            ),
            (lambda: plumbline.predict("no.yaml"), ValueError, "no such file"),
            (lambda: plumbline.predict(KEYS, colour=3), plumbline.InputError, "unknown key"),
            (
                lambda: plumbline.search("llama-3.1-70b", gpus=1, gbs=1, hardware="h100"),
                plumbline.DoesNotFit,
                "fits in",
            ),
            (lambda: plumbline.schedule("1f2b", 4, 8), plumbline.InputError, "such as 1f1b"),
            (lambda: plumbline.schedule("1f1b", 4096, 1 << 20), plumbline.InputError, "microbatches: found"),
            (lambda: plumbline.load_records("/nowhere"), plumbline.InputError, "/nowhere"),
            (lambda: plumbline.load_trace("/nowhere"), plumbline.InputError, "/nowhere"),
            (lambda: plumbline.ask({"ask": "nothing"}), plumbline.InputError, "ask: found"),
        ]:
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(text, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_legality(self):
        self.assertTrue(plumbline.legality(**KEYS).legal)
        refused = plumbline.legality(KEYS, tp=3)
        self.assertFalse(refused.legal)
        self.assertIn("world_size: found 64", refused.reason)


class Tables(unittest.TestCase):
    def test_search(self):
        best = plumbline.search("gpt2-124m", gpus=4, gbs=16, hardware="h100", top=3, threads=1)
        self.assertEqual(len(best), 3)
        self.assertTrue(best.step_s.is_monotonic_increasing)
        self.assertGreater(best.attrs["configurations"], 3)
        keys = {
            key: best.iloc[0][key] for key in ("tensor_model_parallel_size", "micro_batch_size", "zero_stage")
        }
        self.assertIn("--gpus 4", best.command[0])
        self.assertEqual(set(keys), {"tensor_model_parallel_size", "micro_batch_size", "zero_stage"})

    def test_size(self):
        sizes = plumbline.size(
            "gpt2-124m", tokens="10B", days=3, price="h100=2/h", gbs=64, hardware="h100", threads=1
        )
        self.assertTrue(sizes.days.is_monotonic_decreasing)
        fewest = sizes.attrs["fewest"]
        self.assertIn(fewest["gpus"], list(sizes.gpus))
        self.assertLessEqual(fewest["days"], 3)
        self.assertAlmostEqual(fewest["cost"], 2 * fewest["gpu_hours"])

    def test_compare(self):
        table = plumbline.compare([{"tp": 4}, {"tp": 3}], KEYS)
        self.assertEqual(table.step_s[0], plumbline.predict(KEYS).step_s)
        self.assertEqual(table.step_s[1], plumbline.predict(KEYS, tp=4).step_s)
        self.assertIn("world_size: found 64", table.error[2])

    def test_validate(self):
        tables = plumbline.validate()
        self.assertIn("korthikanti_table5", set(tables.name))
        self.assertGreater(len(plumbline.validate(rows=True)), 500)

    def test_traces_and_records(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "t.json"
            trace.write_text(
                json.dumps(
                    {
                        "traceEvents": [
                            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "predicted"}},
                            {
                                "ph": "X",
                                "name": "0F0",
                                "pid": 0,
                                "tid": 1,
                                "ts": 0,
                                "dur": 5,
                                "args": {"stage": 0},
                            },
                        ]
                    }
                )
            )
            events = plumbline.load_trace(trace)
            self.assertEqual(list(events.process), ["predicted"])
            self.assertEqual(list(events.duration_us), [5])


class Schedules(unittest.TestCase):
    def test_schedule(self):
        schedule = plumbline.schedule("1f1b", 4, 8)
        self.assertEqual(schedule.ranks, 4)
        self.assertAlmostEqual(schedule.bubble_fraction, 3 / 11)
        self.assertEqual(schedule.actions[3][:2], ["3F0", "3B0"])
        self.assertTrue(schedule._repr_svg_().startswith("<svg"))

    def test_simulate(self):
        costs = {"stages": [{"forward_us": 100, "backward_us": 200}]}
        self.assertAlmostEqual(plumbline.simulate("1f1b", 4, 8, costs=costs).makespan_us, 3300)
        with self.assertRaises(plumbline.InputError):
            plumbline.simulate("1f1b", 4, 8, costs={})


class Threads(unittest.TestCase):
    def test_others_run_meanwhile(self):
        ticks = []
        searching = threading.Thread(
            target=plumbline.search,
            args=("llama-3.1-8b",),
            kwargs=dict(gpus=64, gbs=512, hardware="h100", threads=1),
        )
        searching.start()
        while searching.is_alive():
            ticks.append(time.monotonic())
            time.sleep(0.01)
        self.assertGreater(len(ticks), 5)

    def test_ctrl_c_ends_a_search(self):
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(1000):
                plumbline.search("llama-3.1-8b", gpus=128, gbs=1024, hardware="h100", threads=1)


@unittest.skipUnless(len(sys.argv) > 1, "no program")
class Program(unittest.TestCase):
    def test_matrix_and_records(self):
        os.environ["PLUMBLINE_PROGRAM"] = sys.argv[1]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.yaml"
            path.write_text(
                "model: gpt2-124m\nhardware: h100-sxm-80gb\nglobal_batch_size: 4\nmatrix:\n"
                "  tensor_model_parallel_size: [1, 2, 5]\n"
            )
            records = plumbline.matrix(path, pathlib.Path(folder) / "out", "--predict-only")
            self.assertEqual(list(records.status), ["ok", "ok", "invalid"])
            self.assertEqual(
                records["prediction.time.step_s"][1],
                plumbline.predict("gpt2-124m", hardware="h100", gbs=4, tp=2).step_s,
            )
            with self.assertRaises(plumbline.InputError) as caught:
                plumbline.matrix(pathlib.Path(folder) / "no.yaml", pathlib.Path(folder) / "out")
            self.assertIn("no such file", str(caught.exception))
        with self.assertRaises(plumbline.InputError):
            plumbline.run("gpt2-124m", tp=5)

    def test_bench(self):
        os.environ["PLUMBLINE_PROGRAM"] = sys.argv[1]
        quick = ["--time-limit", "0.01"]
        products = plumbline.bench("operator", "gemm", "--shape", "m=8,n=8,k=8", *quick)
        self.assertEqual(list(products["shape.k"]), [8])
        self.assertGreater(products["batched.seconds"][0], 0)
        messages = plumbline.bench("collective", "all-reduce", "--sizes", "64", *quick)
        self.assertEqual(list(messages.name), ["AllReduce", "AllReduce"])
        with self.assertRaises(plumbline.InputError):
            plumbline.bench("operator", "all-reduce")


if __name__ == "__main__":
    assert pandas.__version__
    unittest.main(argv=sys.argv[:1])
