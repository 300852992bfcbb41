#!/usr/bin/env python3
"""Checks the texts of refusals in the sources: "KEY: found X, expected Y; change Z".

Reads the string literals of every `throw InputError(...)`. Texts of fewer than three words only join others
and are left out. The number of texts without "expected" may fall but not grow.
"""
import os
import re
import subprocess
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ["analysis", "bench", "core", "kernels", "schedules"]
MOST_WITHOUT = 52  # tensors of broken checkpoints and schedules, mostly

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
STATEMENT = re.compile(r'throw InputError\((?:[^";]|"(?:[^"\\]|\\.)*")*;')


def texts_of(source):
    """Joined literals of each refusal in a source's text."""
    for statement in STATEMENT.finditer(source):
        joined = re.sub(r'"\s*\n\s*"', "", statement.group())
        text = " ".join(LITERAL.findall(joined))
        if len(re.findall(r"[A-Za-z]{2,}", re.sub(r"\{[^}]*\}", "", text))) > 2:
            yield text


def without_expectation(texts):
    return [text for text in texts if "expected" not in text]


class Messages(unittest.TestCase):
    def test_texts_are_found(self):
        source = ('if (x)\n  throw InputError(\n      fmt::format("key: found {}, expected "\n               '
                  '   "bytes; change it",\n'
                  '                  d));\nthrow InputError("nothing of the kind here");\nthrow '
                  'InputError(e.what());')
        self.assertEqual(list(texts_of(source)),
                         ["key: found {}, expected bytes; change it", "nothing of the kind here"])
        self.assertEqual(without_expectation(texts_of(source)), ["nothing of the kind here"])

    def test_refusals_say_what_was_expected(self):
        files = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.split()
        texts = []
        for name in files:
            if name.endswith((".cpp", ".hpp")):
                with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                    texts += texts_of(file.read())
        self.assertGreater(len(texts), 250)
        bad = without_expectation(texts)
        self.assertLessEqual(len(bad), MOST_WITHOUT, "texts without \"expected\":\n" + "\n".join(bad))


if __name__ == "__main__":
    unittest.main()
