"""Every Python script that is started by hand prints its documentation with --help, without what it needs."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("bench", "python", "results", "tests")


def scripts():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            started = re.search(r"__main__|^main\(\)|sys\.argv", text, re.M)
            if started and not path.name.endswith("_test.py") and path.name != "__main__.py":
                yield path


def help_of(path, folder):
    done = subprocess.run([sys.executable, "-B", str(path), "--help"], cwd=folder, capture_output=True,
                          text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    told = done.stdout.strip() and "Traceback" not in done.stdout + done.stderr
    return None if done.returncode == 0 and told else f"{path}: {done.returncode} {done.stderr[-200:]}"


class ScriptHelpTest(unittest.TestCase):
    def test_every_script_prints_it(self):
        found = list(scripts())
        self.assertGreater(len(found), 50)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            wrong = [each for each in pool.map(lambda path: help_of(path, folder), found) if each]
            self.assertEqual(wrong, [])
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


if __name__ == "__main__":
    unittest.main()
