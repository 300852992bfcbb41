#!/usr/bin/env python3
"""Measures the prose of Markdown pages and the form of comments; prints a line for each broken limit.

    tests/rules/prose.py                       all pages and all comments
    tests/rules/prose.py PAGE ...              these pages only
    tests/rules/prose.py --where PAGE ...      also each sentence, item and cell over its limit, with its line
    tests/rules/prose.py --comments            each comment line over a limit, with its line
    tests/rules/prose.py --figures [PAGE ...]  words, sentences and averages of each page

Exit code 0: all limits hold; 1: a limit is broken.

Sentences come from paragraphs and list items. A sentence ends at `.`, `!` or `?` before a blank, and at the
end of its paragraph or item. Abbreviations ("e.g.", "Fig. 3") end none, nor a stop before a small letter.

    headings, tables, code blocks, HTML comments   no sentences
    code span, `like this`                         one word
    link, [text](target)                           its text; an image counts nothing
    list item                                      all its paragraphs, without nested items
    table cell                                     cells of fewer than 4 words, such as numbers, are left out
    words of a page, and of all pages              all text, code and tables included; table rules and other
                                                   marks without a letter or digit are no words

Comment lines are those of C++ and CUDA (//, /* */), Python (# and docstrings), CMake and shell (#), also
behind code. Capitals count: "What" opens a line, "what" does not. A line with a URL may be wider.
"""
import argparse
import ast
import os
import re
import sys
import tokenize

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

SENTENCE_AVERAGE = 17
SENTENCE_LONG = 30
ITEM_LONG = 60
CELL_COUNTED = 4
OPENINGS = 30
ALL_WORDS = 60000
PAGE_WORDS = 2000
LONG_PAGES = "bench/training/"  # the specification: pages of any length

NOT_OURS = {"build", "local", "third_party"}
C_FILES = (".cpp", ".hpp", ".cu", ".cuh", ".inc", ".c", ".h")
HASH_FILES = (".cmake", ".sh")


# ---- pages


class Block:
    """A paragraph, list item or table cell: its kind, the line it starts at, its text."""

    def __init__(self, kind, line, text=""):
        self.kind, self.line, self.text = kind, line, text


ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])\s+(.*)$")
RULE = re.compile(r"^\s*\|?[\s:|-]+\|[\s:|-]*$")
FENCE = re.compile(r"^\s*(```+|~~~+)")


def without_comments(text):
    """HTML comments removed; lines keep their numbers."""
    return re.sub(r"<!--.*?-->", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)


def cells_of(row):
    """The cells of a table row. A bar in a code span or after a backslash divides none."""
    row = re.sub(r"`[^`]*`", lambda match: match.group().replace("|", "\0"), row.strip()).replace("\\|", "\0")
    return [cell.replace("\0", "|").strip() for cell in row.strip("|").split("|")]


def blocks_of(text):
    """Paragraphs, list items and table cells of a page, in order."""
    blocks, items, paragraph, fence = [], [], None, None
    blank_before = True
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark.group(1).startswith(fence) and line.strip() == mark.group(1):
                fence = None
            continue
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if mark:
            fence, paragraph, blank_before = mark.group(1), None, True
            continue
        if not stripped:
            paragraph, blank_before = None, True
            continue
        if blank_before:
            while items and indent < items[-1][0]:
                items.pop()
        item = ITEM.match(line)
        code = blank_before and paragraph is None and indent >= 4 + (items[-1][0] if items else 0)
        if code and not (item and items):
            continue  # an indented code block: blank_before stays, so that its next line is one as well
        blank_before = False
        if re.match(r"^#{1,6}\s", line):
            items, paragraph = [], None
        elif item:
            while items and indent < items[-1][0]:
                items.pop()
            paragraph = Block("item", number, item.group(3))
            items.append((indent + len(item.group(2)) + 1, paragraph))
            blocks.append(paragraph)
        elif stripped.startswith("|"):
            paragraph = None
            if not RULE.match(line):
                blocks.extend(Block("cell", number, cell) for cell in cells_of(stripped))
        elif paragraph:
            paragraph.text += "\n" + stripped.lstrip("> ")
        elif items:  # a further paragraph of an item
            paragraph = items[-1][1]
            paragraph.text += "\n\n" + stripped.lstrip("> ")
        else:
            paragraph = Block("paragraph", number, stripped.lstrip("> "))
            blocks.append(paragraph)
    return blocks


def plain(text):
    """The text as it is read: code spans as one word, links as their text."""
    text = re.sub(r"(`+)(.+?)\1", "Code", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", text)
    text = re.sub(r"<[^>\s]+>", " ", text)
    return re.sub(r"\*\*|__", "", text)


def words_of(text):
    return [word for word in text.split() if re.search(r"\w", word)]


ABBREVIATION = re.compile(r"(^|[\s(])(e\.g|i\.e|cf|vs|etc|Fig|Figs|Eq|Sec|Tab|No|no|approx|et al|[A-Z])\.$")
END = re.compile(r"[.!?]+[\"')\]*_”’]*(?=\s)|:(?=\s*\n\s*\n)")


def sentences_of(text):
    """(line within the text, sentence) of a paragraph or item."""
    text = plain(text)
    found, start = [], 0
    for end in list(END.finditer(text)) + [None]:
        stop = end.end() if end else len(text)
        if end and end.group().startswith(".") and len(end.group()) == 1:
            follows = text[stop:].lstrip()[:1]
            if ABBREVIATION.search(text[start:stop]) and not text[stop:].lstrip(" ").startswith("\n\n"):
                continue
            if follows.islower():
                continue
        sentence = text[start:stop]
        skipped = len(sentence) - len(sentence.lstrip())
        if words_of(sentence):
            found.append((text[:start + skipped].count("\n"), " ".join(sentence.split())))
        start = stop
    return found


def ninth_of_ten(numbers):
    """The smallest bound that nine in ten of the numbers are within; 0 without any."""
    ordered = sorted(numbers)
    return ordered[-(-9 * len(ordered) // 10) - 1] if ordered else 0


class Page:
    """A page measured: words, sentences (line, words, text), items and cells (line, words, text)."""

    def __init__(self, text):
        self.words = sum(len(words_of(line)) for line in text.split("\n"))
        self.sentences, self.items = [], []
        for block in blocks_of(text):
            count = len(words_of(plain(block.text)))
            if block.kind != "cell":
                self.sentences += [(block.line + line, len(words_of(sentence)), sentence)
                                   for line, sentence in sentences_of(block.text)]
            if block.kind == "item" or (block.kind == "cell" and count >= CELL_COUNTED):
                self.items.append((block.line, count, " ".join(plain(block.text).split())))

    def average(self):
        return sum(words for _, words, _ in self.sentences) / max(1, len(self.sentences))

    def sentences_within(self):
        return ninth_of_ten([words for _, words, _ in self.sentences])

    def items_within(self):
        return ninth_of_ten([words for _, words, _ in self.items])

    def findings(self, name):
        found = []
        if self.average() > SENTENCE_AVERAGE:
            found.append("%s: found %.1f words a sentence on average, expected at most %d"
                         % (name, self.average(), SENTENCE_AVERAGE))
        if self.sentences_within() > SENTENCE_LONG:
            found.append("%s: found nine in ten sentences within %d words, expected %d"
                         % (name, self.sentences_within(), SENTENCE_LONG))
        if self.items_within() > ITEM_LONG:
            found.append("%s: found nine in ten list items and cells within %d words, expected %d"
                         % (name, self.items_within(), ITEM_LONG))
        if self.words > PAGE_WORDS and not name.startswith(LONG_PAGES):
            found.append("%s: found %d words, expected at most %d" % (name, self.words, PAGE_WORDS))
        return found

    def places(self, name):
        found = ["%s:%d: found a sentence of %d words, expected at most %d: %s"
                 % (name, line, words, SENTENCE_LONG, text)
                 for line, words, text in self.sentences if words > SENTENCE_LONG]
        found += ["%s:%d: found an item or cell of %d words, expected at most %d: %s"
                  % (name, line, words, ITEM_LONG, text[:80])
                  for line, words, text in self.items if words > ITEM_LONG]
        return found


# ---- comments


LITERAL = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
C_TOKEN = re.compile(r'R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|(?<=\w)\'(?=\w)|' + LITERAL +
                     r"|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)", re.DOTALL)
HASH_TOKEN = re.compile(r"\\.|" + LITERAL + r"|(?P<line>(?:(?<=\s)|^)#[^\n]*)", re.MULTILINE)


def matched_comments(text, pattern):
    for match in pattern.finditer(text):
        kind = match.lastgroup if match.lastgroup in ("line", "block") else None
        if kind:
            first = text.count("\n", 0, match.start()) + 1
            for offset, line in enumerate(match.group().split("\n")):
                yield first + offset, re.sub(r"^\s*(//+[!/]*<?|/\*+|\*+/?|#+!?)\s*", "", line)


def python_comments(text):
    lines = text.split("\n")
    reader = iter([line + "\n" for line in lines])
    for token in tokenize.generate_tokens(lambda: next(reader, "")):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"^#+!?\s*", "", token.string)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef,
                             ast.FunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            string = node.body[0].value
            for number in range(string.lineno, string.end_lineno + 1):
                yield number, re.sub(r'^\s*[rR]?("""|"|\'\'\')?\s*', "", lines[number - 1])


def comments_of(name, text):
    """(line, text of the comment in that line) of a source file, in order."""
    if name.endswith(C_FILES):
        return matched_comments(text, C_TOKEN)
    if name.endswith(".py") or re.match(r"#!.*python", text):
        return sorted(python_comments(text))
    return matched_comments(text, HASH_TOKEN)


OPENING = re.compile(r"(What|Whether|That|Which|Where|How|Of)\b")


def comment_findings(name, text, limit):
    """(lines that open with one of the words, lines beyond the limit) as (line, text of the line)."""
    lines = text.split("\n")
    opened, wide = [], []
    for number, comment in comments_of(name, text):
        line = lines[number - 1]
        if OPENING.match(comment):
            opened.append((number, line.strip()))
        if len(line) > limit and "://" not in line:
            wide.append((number, line.strip()))
    return opened, wide


def column_limit(root=ROOT):
    with open(os.path.join(root, ".clang-format"), encoding="utf-8") as file:
        return int(re.search(r"^ColumnLimit:\s*(\d+)", file.read(), re.MULTILINE).group(1))


# ---- the tree


def files_of(root=ROOT):
    """Paths of the tree's own files, relative to its root."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders
                            if name not in NOT_OURS and not name.startswith("build-")
                            and (not name.startswith(".") or name == ".ci"))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def text_of(name, root=ROOT):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_source(name, root=ROOT):
    if name.endswith(C_FILES + HASH_FILES + (".py", "CMakeLists.txt")):
        return True
    if "." in os.path.basename(name):
        return False
    with open(os.path.join(root, name), "rb") as file:
        return file.read(2) == b"#!"


def page_findings(names, root=ROOT):
    """Findings by page."""
    return {name: Page(text_of(name, root)).findings(name) for name in names}


def all_comments(root=ROOT):
    """(name, line, text) of lines that open with one of the words, and of those beyond the limit."""
    limit = column_limit(root)
    opened, wide = [], []
    for name in files_of(root):
        if not is_source(name, root):
            continue
        found = comment_findings(name, text_of(name, root), limit)
        opened += [(name, *place) for place in found[0]]
        wide += [(name, *place) for place in found[1]]
    return opened, wide


def tree_findings(root=ROOT):
    """Findings by page and by "all pages", "comment openings" and "comment columns"; maybe none."""
    pages = [name for name in files_of(root) if name.endswith(".md")]
    found = page_findings(pages, root)
    total = sum(Page(text_of(name, root)).words for name in pages)
    opened, wide = all_comments(root)
    many = "all pages: found %d words, expected at most %d" % (total, ALL_WORDS)
    found["all pages"] = [many] if total > ALL_WORDS else []
    found["comment openings"] = []
    if len(opened) > OPENINGS:
        found["comment openings"] = ["comment openings: found %d lines that begin with What, Whether, That, "
                                     "Which, Where, "
                                     "How or Of, expected at most %d" % (len(opened), OPENINGS)]
    found["comment columns"] = []
    if wide:
        found["comment columns"] = ["comment columns: found %d lines beyond column %d, expected 0"
                                    % (len(wide), column_limit(root))]
    return found


def show_figures(names):
    print("%6s %9s %8s %12s %13s  %s" % ("words", "sentences", "average", "nine in ten", "same of items",
                                         "page"))
    pages = [(name, Page(text_of(name))) for name in names]
    for name, page in pages:
        print("%6d %9d %8.1f %12d %13d  %s" % (page.words, len(page.sentences), page.average(),
                                               page.sentences_within(),
                                               page.items_within(), name))
    counts = [words for _, page in pages for _, words, _ in page.sentences]
    cells = [words for _, page in pages for _, words, _ in page.items]
    print("%6d %9d %8.1f %12d %13d  all" % (sum(page.words for _, page in pages), len(counts),
                                            sum(counts) / max(1, len(counts)), ninth_of_ten(counts),
                                            ninth_of_ten(cells)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    parser.add_argument("--where", action="store_true",
                        help="also print sentences, items and cells over their limits")
    parser.add_argument("--comments", action="store_true",
                        help="print comment lines over a limit instead of pages")
    parser.add_argument("--figures", action="store_true",
                        help="print words and averages of pages instead of findings")
    options = parser.parse_args()

    names = [os.path.relpath(os.path.abspath(page), ROOT) for page in options.pages]
    every = [name for name in files_of() if name.endswith(".md")]
    if options.figures:
        show_figures(names or every)
        return 0
    if options.comments:
        opened, wide = all_comments()
        found = ["%s:%d: found %s, expected a noun phrase" % place for place in opened]
        found += ["%s:%d: found a line beyond column %d: %s" % (name, line, column_limit(), text)
                  for name, line, text in wide]
    else:
        by_page = page_findings(names) if names else tree_findings()
        found = [line for lines in by_page.values() for line in lines]
        if options.where:
            found += [place for name in names or every for place in Page(text_of(name)).places(name)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
