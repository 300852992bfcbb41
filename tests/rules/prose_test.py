#!/usr/bin/env python3
"""Pages and comments keep to the limits of prose.py, and prose.py measures small texts as it says.

    prose_test.py            run by CTest
    prose_test.py --shrink   takes those that keep to the limits off the list UNFINISHED
"""
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import prose  # noqa: E402

# Pages and counts that may break a limit until they are rewritten. The list only shrinks: an entry within all
# limits fails the test.
UNFINISHED = """
""".split("\n")[1:-1]


class TreeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.findings = prose.tree_findings()

    def test_finished_ones_keep_to_the_limits(self):
        broken = [line for name, lines in self.findings.items() if name not in UNFINISHED for line in lines]
        self.assertEqual(broken, [], "\n" + "\n".join(broken))

    def test_unfinished_ones_break_a_limit(self):
        done = ["%s: found within all limits, expected off the list; run tests/rules/prose_test.py "
                "--shrink" % name
                for name in UNFINISHED if not self.findings.get(name)]
        self.assertEqual(done, [], "\n" + "\n".join(done))


def sentences(text):
    return [(line, words) for line, words, _ in prose.Page(text).sentences]


def items(text):
    return [words for _, words, _ in prose.Page(text).items]


class PageTest(unittest.TestCase):
    def test_sentences_end_at_stops_and_paragraphs(self):
        self.assertEqual(sentences("One two three. Four five!\nSix\nseven? Eight.\n\nNine ten\n"),
                         [(1, 3), (1, 2), (2, 2), (3, 1), (5, 2)])

    def test_abbreviations_numbers_and_names_end_none(self):
        self.assertEqual(sentences("Takes 1.5 s, e.g. Fig. 3 of J. Doe et al. and more. Next one."),
                         [(1, 13), (1, 2)])
        self.assertEqual(sentences("A file a.b.c is read. `x. y` starts one."), [(1, 5), (1, 3)])

    def test_a_colon_ends_a_sentence_before_a_block(self):
        self.assertEqual(sentences("Two sizes: small and large.\n"), [(1, 5)])
        self.assertEqual(sentences("Build it:\n\n```sh\nmake. All of it.\n```\n\nDone.\n"), [(1, 2), (7, 1)])

    def test_code_spans_are_one_word_and_links_their_text(self):
        self.assertEqual(sentences("Run `plumbline predict a.yaml` as [the tour](bench/tour/README.md) "
                                   "says."), [(1, 6)])
        self.assertEqual(sentences("![a long picture](a.svg) See [here][1]."), [(1, 2)])

    def test_headings_code_and_comments_have_no_sentences(self):
        text = ("# A heading. Of two.\n\n    indented code. Twice.\n\n    more of it.\n\n"
                "<!-- a\ncomment. -->\nText here.\n")
        self.assertEqual(sentences(text), [(9, 2)])

    def test_a_fence_ends_with_a_fence_of_its_kind(self):
        self.assertEqual(sentences("````\n```\nNo. No.\n```\n````\nYes here.\n"), [(6, 2)])

    def test_items_have_their_paragraphs_but_no_nested_items(self):
        text = "- One two\n  three.\n\n  Four.\n  - nested item here\n- Five.\n\nA paragraph.\n"
        self.assertEqual(items(text), [4, 3, 1])
        self.assertEqual(sentences(text), [(1, 3), (4, 1), (5, 3), (6, 1), (8, 2)])

    def test_numbered_items_are_items(self):
        self.assertEqual(items("1. One two.\n2) Three.\n"), [2, 1])

    def test_cells_are_no_sentences_and_short_ones_are_left_out(self):
        text = ("| a | b |\n|---|:-:|\n| 1.5 | four words of prose. Five more |\n"
                "| `a|b` | with \\| five words in it |\n")
        self.assertEqual(sentences(text), [])
        self.assertEqual(items(text), [6, 5])

    def test_words_leave_out_table_rules_and_bars(self):
        self.assertEqual(prose.Page("# Head\n\n| a | 1 |\n|---|---|\n\n```sh\nrun it\n```\n").words, 6)

    def test_nine_in_ten(self):
        self.assertEqual(prose.ninth_of_ten([]), 0)
        self.assertEqual(prose.ninth_of_ten([7]), 7)
        self.assertEqual(prose.ninth_of_ten(range(1, 11)), 9)
        self.assertEqual(prose.ninth_of_ten(range(1, 10)), 9)
        self.assertEqual(prose.ninth_of_ten(range(1, 21)), 18)

    def test_findings_name_the_page_and_both_values(self):
        self.assertEqual(prose.Page("word " * 18 + ".").findings("a.md"),
                         ["a.md: found 18.0 words a sentence on average, expected at most 17"])
        self.assertEqual(prose.Page("word " * 31 + "word.\n\nOne.\n\nTwo.\n").findings("a.md"),
                         ["a.md: found nine in ten sentences within 32 words, expected 30"])
        self.assertEqual(prose.Page("|" + "word " * 61 + "|\n").findings("a.md"),
                         ["a.md: found nine in ten list items and cells within 61 words, expected 60"])
        self.assertEqual(prose.Page("Word word.\n" * 1001).findings("a.md"),
                         ["a.md: found 2002 words, expected at most 2000"])
        self.assertEqual(prose.Page("Word word.\n" * 1001).findings("bench/training/a.md"), [])
        self.assertEqual(prose.Page("").findings("a.md"), [])


def opened(name, text, limit=110):
    return [line for line, _ in prose.comment_findings(name, text, limit)[0]]


def wide(name, text, limit=20):
    return [line for line, _ in prose.comment_findings(name, text, limit)[1]]


class CommentTest(unittest.TestCase):
    def test_cpp(self):
        text = ('// What it is.\nint a;  ///< Whether it is.\n/// what it is, Of course\n'
                '/* Which one,\n * How many */\n// Offsets')
        self.assertEqual(opened("a.cpp", text), [1, 2, 4, 5])
        self.assertEqual(opened("a.hpp",
                                'f("// What");\nchar c = \'"\';  // What\nint n = 1\'000;  // What\n'),
                                [2, 3])
        self.assertEqual(opened("a.cu", 'R"(\n// What\n)";\nR"x(// What)"\n// What\n)x";\n// What\n'), [7])

    def test_python(self):
        text = ('#!/usr/bin/env python3\n"""What it does.\n\nHow it does it.\n"""\nTEXT = "# What"\n'
                'def f():\n    # Of all\n    return 1  # That\n')
        self.assertEqual(opened("a.py", text), [2, 4, 8, 9])
        self.assertEqual(opened("a", "#!/usr/bin/env python3\n# What\n"), [2])

    def test_cmake_and_shell(self):
        self.assertEqual(opened("a.cmake", '# Where\nset(a "# What")  # Which\n'), [1, 2])
        self.assertEqual(opened("a.sh", '#!/bin/sh\necho ${#a} "# What"  # How\n'), [2])

    def test_columns(self):
        text = ("// twenty columns ok\n// twenty-one columns\nint code_beyond_the_limit;\n"
                "// https://example.com\n")
        self.assertEqual(wide("a.cpp", text), [2])
        self.assertEqual(wide("a.py", '"""\ntwenty-one columns ...\n"""\nx = "twenty-one columns"\n'), [2])


def shrink():
    findings = prose.tree_findings()
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    names = "".join(name + "\n" for name in UNFINISHED if findings.get(name))
    text = re.sub(r'(?s)(UNFINISHED = """\n).*?(""")', lambda match: match.group(1) + names + match.group(2),
                  text, count=1)
    with open(__file__, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--shrink"]:
        shrink()
    else:
        unittest.main()
