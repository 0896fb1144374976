"""Every command and every block of code in the documents works.

A fence says what its block is:

- ``python``: runs by itself; ``continue`` goes on where the block before it ended;
  ``file=PATH`` is the content of that file (under ``tmp/`` it is written there);
  ``excerpt=PATH:NAME`` is a piece of it (see ``test_excerpts``), and runs nowhere;
  ``new=KIND`` is what ``batchwright new KIND`` writes under the name of the file.
- ``toml``: a configuration, relative to ``examples/``; ``load=PATH`` loads a plugin that
  another block wrote, ``plugin=MODULE`` a package of ``contrib/``; ``project`` is none;
  ``file=PATH`` is the content of that file, and relative to its folder.
- ``console``: commands behind ``$``; ``exit=N`` says how they end; ``model`` needs one;
  ``load=PATH,PATH`` needs files that other blocks wrote;
  ``slow`` takes long;
  ``picture=PATH`` is the picture that a comparison makes, the block behind it what it answers;
  ``continue`` goes on in the folder that the block before it left.
- ``sh``: ``make`` and ``pip`` as a newcomer types them; ``not-run`` are commands that are
  listed in ``NOT_RUN``, because they change what lies outside this repository.
- ``text``: what is printed.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from batchwright.component_checks import check_components
from batchwright.config import Config
from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.plugin_manager import PluginManager
from batchwright.version import PLUGIN_API_VERSIONS
from batchwright_cli.scaffold.scaffold import Scaffold

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("contrib/*/README.md")),
]
FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
PATH = re.compile(r"`((?:core|plugins|contrib|docs|examples|tests)/[\w./*-]*)`")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
MAKE = re.compile(r"`(make [^`]*)`")
NOT_RUN = [
    'git tag --sign v0.1.0 --message "Batchwright 0.1.0"',
    "python -m build",
    "python -m venv /tmp/batchwright-release",
    "/tmp/batchwright-release/bin/pip install dist/batchwright-0.1.0-py3-none-any.whl",
    "/tmp/batchwright-release/bin/batchwright --version",
    "python -m twine upload dist/batchwright-0.1.0*",
    "git push origin v0.1.0",
]
KINDS = {"python", "toml", "console", "sh", "text"}


@frozen
class Block:
    """One fenced block.

    Args:
        document: Where it stands.
        line: At which line.
        kind: Its language.
        flags: What its fence says besides, by name.
        text: Its content.
    """

    document: Path
    line: int
    kind: str
    flags: dict[str, str]
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks_of(document: Path) -> list[Block]:
    source = document.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(source):
        kind, *words = match[1].split() or [""]
        flags = {name: value for name, _, value in (word.partition("=") for word in words)}
        line = source.count("\n", 0, match.start()) + 1
        found.append(Block(document, line, kind, flags, match[2]))
    return found


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]


def of_kind(kind: str, *, model: bool = False) -> list[Block]:
    return [b for b in BLOCKS if b.kind == kind and ("model" in b.flags) is model]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder like the root of the repository, in which blocks may write to tmp/."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def call(command: list[str], workspace: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    return subprocess.run(
        command,
        cwd=workspace,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert [str(block) for block in BLOCKS if block.kind not in KINDS] == []
    assert {block.kind for block in BLOCKS} == KINDS


RUN = [block for block in of_kind("python") if "excerpt" not in block.flags]


@pytest.mark.parametrize("block", RUN, ids=str)
def test_python_block_runs(block: Block, workspace: Path) -> None:
    name = block.flags.get("file", "")
    if name and not name.startswith("tmp/"):
        assert block.text == (ROOT / name).read_text(encoding="utf-8")
    done = call([sys.executable, "-c", "".join(code_before(block))], workspace)
    assert done.returncode == 0, done.stderr


def code_before(block: Block) -> Iterator[str]:
    """The code of a block, behind that of those which it continues."""
    for part in continued(block):
        yield part.text


def continued(block: Block) -> list[Block]:
    """A block, behind those of its kind which it continues."""
    blocks = [b for b in blocks_of(block.document) if "excerpt" not in b.flags]
    alike = [b for b in blocks if b.kind == block.kind]
    start = index = alike.index(block)
    while "continue" in alike[start].flags:
        start -= 1
    return alike[start : index + 1]


@pytest.mark.parametrize("block", of_kind("toml"), ids=str)
def test_toml_block_is_a_valid_configuration(
    block: Block, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tomllib.loads(block.text)
    if "project" in block.flags:
        assert "project" in table
        return
    extra = []
    if "plugin" in block.flags:
        name = block.flags["plugin"]
        (source,) = ROOT.glob(f"contrib/*/src/{name}")
        monkeypatch.syspath_prepend(source.parent)
        extra.append(import_module(name))
    written = written_by_blocks(block, workspace)
    own = block.flags.get("file", "")
    folder = (workspace / own).parent if own else ROOT / "examples"
    config = Config.from_dict(table, base_path=folder)
    paths = config.plugin_paths if own else [*config.plugin_paths, *written]
    check_components(config, PluginManager.discover(paths, extra=extra))


def written_by_blocks(block: Block, workspace: Path) -> list[Path]:
    """Write the files that a block needs as the blocks say that hold them."""
    names = block.flags.get("load", "")
    return [written(name, workspace) for name in names.split(",") if name]


def written(name: str, workspace: Path) -> Path:
    (source,) = (b for b in BLOCKS if b.flags.get("file") == name)
    (workspace / name).write_text(source.text)
    return workspace / name


def in_tiers(blocks: Iterable[Block]) -> list[Any]:
    """Blocks as parameters; those of the how-to guides, and long ones, are in the slow tier."""
    slow = {True: [pytest.mark.slow], False: []}
    return [
        pytest.param(
            block,
            id=str(block),
            marks=slow[str(block).startswith("docs/how-to") or "slow" in block.flags],
        )
        for block in blocks
    ]


@pytest.mark.parametrize("block", [b for b in BLOCKS if "new" in b.flags], ids=str)
def test_component_of_a_page_is_what_new_writes(block: Block) -> None:
    name = Path(block.flags["file"]).stem.replace("_", "-")
    assert block.text == Scaffold(block.flags["new"], name).source()


def test_every_kind_has_a_page_that_writes_one() -> None:
    pages = [b.text for b in BLOCKS if b.kind == "python" and "docs" in b.document.parts]
    shown = set(re.findall(r"def batchwright_register_(\w+)", "".join(pages)))
    assert shown == set(COMPONENT_KINDS)


def test_component_of_a_how_to_is_tested_by_its_page() -> None:
    """Each page runs the conformance class of the kind on what it writes."""
    for page in (ROOT / "docs" / "how-to").glob("write-a*.md"):
        blocks = blocks_of(page)
        (path,) = (b.flags["file"] for b in blocks if b.flags.get("file", "").endswith(".py"))
        tested = [b for b in blocks if f"$ pytest --batchwright {path} -q" in b.text]
        assert tested, f"{page.name} has no console block that tests {path}"


@pytest.mark.parametrize("block", in_tiers(of_kind("console")))
def test_command_works(block: Block, workspace: Path) -> None:
    for part in continued(block):
        written_by_blocks(part, workspace)
        for command in commands(part):
            done = call(command, workspace)
            assert done.returncode == int(part.flags.get("exit", 0)), done.stderr + done.stdout
            if "picture" in part.flags:
                shown = ROOT / part.flags["picture"]
                for suffix in ("", "-dark"):
                    made = workspace / "tmp" / "compare" / f"figure{suffix}.svg"
                    kept = shown.with_stem(shown.stem + suffix)
                    assert made.read_text() == kept.read_text()
                assert without_clock(done.stdout) == without_clock(block_after(part).text)


def without_clock(text: str) -> str:
    """The answer of a comparison without the wall-clock times at the ends of its table's lines."""
    return re.sub(r"(?m)(^\d+\. .*  )[\d.]+ (?:µs|ms|s)$", r"\1TIME", text)


def block_after(block: Block) -> Block:
    blocks = blocks_of(block.document)
    return blocks[blocks.index(block) + 1]


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("block", of_kind("console", model=True), ids=str)
def test_command_with_a_model_works(block: Block, workspace: Path) -> None:
    """On a few prompts and few tokens: it is the command that is tested here."""
    lines = (ROOT / "examples/prompts/quickstart.jsonl").read_text().splitlines()[:3]
    few = workspace / "tmp" / "few.jsonl"
    prompts = [{**json.loads(line), "max_tokens": 4} for line in lines]
    few.write_text("".join(f"{json.dumps(prompt)}\n" for prompt in prompts))
    for command in commands(block):
        done = call([*command, "--prompts", str(few)], workspace)
        assert done.returncode == 0, done.stderr
        assert "3 of 3" in done.stdout


def commands(block: Block) -> Iterator[list[str]]:
    programs = {
        "batchwright": [sys.executable, "-m", "batchwright"],
        "python": [sys.executable],
        "pytest": [sys.executable, "-m", "pytest", *pytest_plugin()],
    }
    for line in block.text.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line.removeprefix("$ "))
            yield [*programs[program], *arguments]


def pytest_plugin() -> list[str]:
    """Return the options that load our plugin if Batchwright is not installed."""
    installed = any(point.name == "batchwright" for point in entry_points(group="pytest11"))
    return [] if installed else ["-p", "batchwright_plugins.pytest_batchwright"]


@pytest.mark.parametrize("block", of_kind("sh"), ids=str)
def test_newcomers_commands_exist(block: Block) -> None:
    if "not-run" in block.flags:
        assert set(block.text.splitlines()) <= set(NOT_RUN)
        return
    for line in block.text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program in ("make", "pip"), line
        if program == "make":
            assert unknown_to_make(arguments) == set(), line


def unknown_to_make(arguments: Iterable[str]) -> set[str]:
    """Targets and variables that the Makefile does not have."""
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    variables = re.findall(r"^([A-Z_]+) \?=", makefile, re.MULTILINE)
    return {argument.partition("=")[0] for argument in arguments} - {*targets, *variables}


def test_every_command_that_is_not_run_is_in_a_document() -> None:
    blocks = [block for block in BLOCKS if "not-run" in block.flags]
    assert [line for block in blocks for line in block.text.splitlines()] == NOT_RUN


def test_make_commands_within_a_sentence_exist() -> None:
    """A name that ends in ``...`` stands for several."""
    commands = {
        command for document in DOCUMENTS for command in MAKE.findall(document.read_text("utf-8"))
    }
    wrong = {
        command
        for command in commands
        if not command.endswith("...") and unknown_to_make(shlex.split(command)[1:])
    }
    assert len(commands) > 10
    assert wrong == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_anchors_lead_to_a_heading(document: Path) -> None:
    links = ANCHOR.findall(document.read_text(encoding="utf-8"))
    pages = [(document.parent / path if path else document, anchor) for path, anchor in links]
    assert [f"{page}#{anchor}" for page, anchor in pages if anchor not in anchors(page)] == []


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a page."""
    headings = HEADING.findall(FENCE.sub("", document.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_of_the_repository_exist(document: Path) -> None:
    paths = PATH.findall(FENCE.sub("", document.read_text(encoding="utf-8")))
    folders = (ROOT, document.parent)
    missing = [path for path in paths if not any(any(f.glob(path.rstrip("/"))) for f in folders)]
    assert missing == []


def test_the_plugin_api_that_a_page_names_is_supported() -> None:
    page = (ROOT / "docs/how-to/publish-a-plugin.md").read_text(encoding="utf-8")
    (value,) = re.findall(r"`batchwright_api = (.*?)`", page)
    assert str(ast.literal_eval(value)) in PLUGIN_API_VERSIONS


def test_cost_of_a_step_is_quoted_as_it_was_measured() -> None:
    """The times of decode batches in differences-from-vllm.md stand in the measured table."""
    folder = ROOT / "docs" / "explanation"
    table = (folder / "what-a-step-costs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| steady decode, ([\d,]+) running \| ([\d.,]+) \|", table, re.MULTILINE)
    measured = {running: round(float(cost.replace(",", ""))) for running, cost in rows}
    text = " ".join((folder / "differences-from-vllm.md").read_text(encoding="utf-8").split())
    costs = [measured[running] for running in ("64", "256", "1,024")]
    quoted = (
        "take {} microseconds with 64 requests in the decode batch, {} with 256 and {} with 1,024"
    )
    assert quoted.format(*costs) in text


def test_every_page_is_listed_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(index.read_text())}
    assert {path for path in index.parent.rglob("*.md") if path != index} <= listed
