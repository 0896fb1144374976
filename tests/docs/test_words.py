"""The prose of documents, docstrings and comments keeps to the rules of style."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("core", "plugins", "contrib", "docs", "examples")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"<!-- table: .*?<!-- end -->", re.DOTALL)
CODE = re.compile(r"``[^`]*``|`[^`]*`|\b\w+(?:\.\w+)+|^ *\w+: ", re.DOTALL | re.MULTILINE)
"""Code in a line, dotted names, and the names of arguments that a docstring lists."""
PERSONS = re.compile(
    r"(?<![a-z])(anybody|everybody|nobody|somebody|who[ms]oever|whoever|whom)(?![a-z])",
    re.IGNORECASE,
)
OLD = re.compile(
    r"\b(alarms?|debts?|grant(s|ed|ing)?|halves|leap(s|t|ing)?|ledgers?|notices"
    r"|park(s|ed|ing)?|steady decodes?|displac\w+)\b",
    re.IGNORECASE,
)
"""Words of this project that have been replaced by the field's own."""
OPENER = re.compile(r"(What|Who|Whom|Whose|Whether|Which|How|Where)\b")
CLAUSE = re.compile(r"(?:(?<=[.:] )|(?<=\.\n)|(?<=\n\n))(?:What|Who)\b[^.?]*\.(?=\s)")


def files(*suffixes: str) -> list[Path]:
    found = [p for name in FOLDERS for p in (ROOT / name).rglob("*") if p.suffix in suffixes]
    return sorted([ROOT / "README.md", *found] if ".md" in suffixes else found)


def refuse(found: Iterable[str]) -> None:
    """Fail with every place that is found, a line each."""
    lines = list(found)
    assert not lines, "\n".join(["", *lines])


def place(path: Path, text: str, position: int) -> str:
    return f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, position) + 1}"


def blanked(text: str, pattern: re.Pattern[str]) -> str:
    """A text whose matches are blank, so that lines and positions stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def prose_of_page(path: Path) -> str:
    """A page without blocks of code, generated tables and code in a line."""
    text = path.read_text(encoding="utf-8")
    for pattern in (FENCE, GENERATED, CODE):
        text = blanked(text, pattern)
    return text


def comments_of_toml(path: Path) -> str:
    """The comments of a configuration; its strings are for a model."""
    return re.sub(r"(?m)^[^#\n]*", "", path.read_text(encoding="utf-8"))


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


def prose_of_source(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of docstrings and comments, without code in them."""
    source = path.read_text(encoding="utf-8")
    for first, text in docstrings(source):
        yield from enumerate(blanked(text, CODE).split("\n"), first)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], blanked(token.string, CODE)


def test_requests_and_threads_are_no_persons() -> None:
    """No page, code included, says somebody, nobody, everybody, whoever or whom."""
    texts = {path: path.read_text(encoding="utf-8") for path in files(".md", ".py")}
    texts |= {path: comments_of_toml(path) for path in files(".toml")}
    refuse(
        f"{place(path, text, match.start())}: {match[0]}"
        for path, text in texts.items()
        for match in PERSONS.finditer(text)
    )


def test_pages_use_the_words_of_the_vocabulary() -> None:
    """The words of docs/index.md, not those that they have replaced."""
    texts = {path: prose_of_page(path) for path in files(".md")}
    refuse(
        f"{place(path, text, match.start())}: {match[0]}"
        for path, text in texts.items()
        for match in OLD.finditer(text)
    )


def test_docstrings_and_comments_use_the_words_of_the_vocabulary() -> None:
    refuse(
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in files(".py")
        for line, text in prose_of_source(path)
        for match in OLD.finditer(text)
    )


def test_docstrings_open_with_a_noun_or_a_verb() -> None:
    """Not with What, Who, Which, Whether, How or Where."""
    refuse(
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in files(".py")
        for line, text in docstrings(path.read_text(encoding="utf-8"))
        if OPENER.match(text.lstrip())
    )


def test_sentences_of_pages_begin_with_no_relative_clause() -> None:
    """Only a question begins with What or Who."""
    texts = {path: prose_of_page(path) for path in files(".md")}
    refuse(
        f"{place(path, text, match.start())}: {' '.join(match[0].split())}"
        for path, text in texts.items()
        for match in CLAUSE.finditer(text)
    )
