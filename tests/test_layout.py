"""Rules of the layout: the dependencies of each part, and their sizes."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from batchwright import default_plugins
from batchwright.plugin_manager import PluginManager
from batchwright.request import Request

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "batchwright"
SOURCES = ROOT / "plugins"
PACKAGES = (
    "batchwright",
    "batchwright_plugins",
    "batchwright_engine",
    "batchwright_lab",
    "batchwright_cli",
)
"""A package imports itself and those on its left."""
KINDS = SOURCES / "batchwright_plugins"
HEAVY = {"torch", "transformers", "xformers", "safetensors", "tokenizers", "accelerate"}
CORE_MAY_IMPORT = {"attrs", "importlib_metadata", "pluggy"}
IMPORT_MAIN = "from batchwright_cli.main import main"
MAX_CORE_LINES = 5000
MAX_SCHEDULER_LINES = 2200
MAX_FILE_LINES = 300
MAX_CORE_FUNCTION_LINES = 40
MAX_FUNCTION_LINES = 60


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str, list[str]]]:
    """Every import: its line, its module in full, the names taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, []
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = package.split(".")
                base = base[: len(base) - node.level + 1]
                module = ".".join([*base, *filter(None, [module])])
            yield node.lineno, module, [alias.name for alias in node.names]


def package_of(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source).parent.parts)


def outside_type_checking(tree: ast.Module) -> ast.Module:
    """The module without its ``if TYPE_CHECKING`` blocks."""

    class Strip(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
            is_guard = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            return node.orelse if is_guard else self.generic_visit(node)

    return Strip().visit(tree)


@pytest.mark.parametrize("path", modules(CORE), ids=name_of)
def test_core_imports_nothing_but_light_packages(path: Path) -> None:
    """Never a plugin, never a heavy package; what tests need only in ``testing``."""
    allowed = {*sys.stdlib_module_names, *CORE_MAY_IMPORT, "batchwright"}
    if CORE / "testing" in path.parents:
        allowed |= {"hypothesis", "pytest"}
    if path == CORE / "testing" / "attention.py":
        allowed |= {"torch"}  # a reference to compute with; nothing imports it on its own
    tree = outside_type_checking(parsed(path))
    for line, module, _ in imports(tree, package_of(path, CORE.parent)):
        assert module.partition(".")[0] in allowed, f"{name_of(path)}:{line}: {module}"


def folder_of(package: str) -> Path:
    return CORE if package == "batchwright" else SOURCES / package


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_of_packages_go_one_way(package: str) -> None:
    """No package knows one on its right, not even for types."""
    known = PACKAGES[: PACKAGES.index(package) + 1]
    folder, others = folder_of(package), []
    for path in modules(folder):
        for line, module, _ in imports(parsed(path), package_of(path, folder.parent)):
            root = module.partition(".")[0]
            if root in PACKAGES and root not in known:
                others.append(f"{name_of(path)}:{line}: {module}")
    assert others == []


def import_graph(folders: list[Path]) -> dict[str, set[str]]:
    """Modules that each module imports when it is loaded, or for types; not inside functions."""
    paths = {}
    for folder in folders:
        for path in modules(folder):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            paths[".".join(parts).removesuffix(".__init__")] = path, package_of(path, folder.parent)
    graph: dict[str, set[str]] = {}
    for name, (path, package) in paths.items():
        graph[name] = known = set()
        for _, module, taken in imports(without_functions(parsed(path)), package):
            found = [one for one in (f"{module}.{part}" for part in taken) if one in paths]
            known |= {one for one in (found or [module]) if one in paths} - {name}
    return graph


def without_functions(tree: ast.Module) -> ast.Module:
    class Strip(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

    return Strip().visit(tree)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import one another, directly or by others."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        left = [start]
        while left:
            new = graph[left.pop()] - found
            found |= new
            left += new
        return found

    known = {name: reached(name) for name in graph}
    groups = {
        frozenset(other for other in known[name] if name in known[other])
        for name in graph
        if name in known[name]
    }
    return sorted(sorted(group) for group in groups)


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d"}}
    assert cycles(graph) == [["a", "b", "c"]]


CONTEXT_AND_CONTRACTS = [
    "batchwright.context",
    "batchwright.protocols.component",
    "batchwright.protocols.estimator",
    "batchwright.runtime_services",
]
"""A component has a context, which offers an estimator, which is a component."""


def test_no_imports_run_in_a_circle_between_packages() -> None:
    """Folders count as packages; imports for types count, too."""
    graph = import_graph([folder_of(package) for package in PACKAGES])
    graph = {
        name: {other for other in known if ".testing" not in other}
        for name, known in graph.items()
        if ".testing" not in name
    }
    packages = {name for name in graph if any(other.startswith(f"{name}.") for other in graph)}

    def package(name: str) -> str:
        return name if name in packages else name.rpartition(".")[0]

    found = [group for group in cycles(graph) if len({package(name) for name in group}) > 1]
    assert found == [CONTEXT_AND_CONTRACTS]


def test_no_imports_run_in_a_circle_inside_the_scheduler() -> None:
    inside = {
        name: {other for other in known if other.startswith("batchwright.scheduler.")}
        for name, known in import_graph([CORE]).items()
        if name.startswith("batchwright.scheduler.")
    }
    assert len(inside) > 10
    assert cycles(inside) == []


def docstrings(tree: ast.AST) -> set[int]:
    """Lines that docstrings (of definitions, and below assignments) take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def component_names() -> set[str]:
    """Names of all components that ship with Batchwright."""
    found = PluginManager.discover().registrations()
    return {r.name for r in found if r.module.partition(".")[0] in PACKAGES}


def test_core_names_no_component_outside_its_table() -> None:
    """No string constant of core, docstrings apart, equals a component's name.

    Words of the core's own are left out: commands (``config``, ``plugins``), and fields
    of a request (``priority``).
    """
    commands = {r.name for r in PluginManager.discover().registrations("command")}
    names = component_names() - commands - set(attrs.fields_dict(Request))
    assert {"fcfs", "paged", "torch", "lifo"} <= names
    found = []
    for path in modules(CORE):
        if path == Path(default_plugins.__file__) or CORE / "testing" in path.parents:
            continue
        tree = parsed(path)
        ignored = docstrings(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or node.lineno in ignored:
                continue
            if node.value in names:
                found.append(f"{name_of(path)}:{node.lineno}: {node.value!r}")
    assert found == []


@pytest.mark.parametrize("path", modules(SOURCES), ids=name_of)
def test_packages_do_not_use_one_anothers_privates(path: Path) -> None:
    """Nothing underscored is imported from another package, nor from another kind."""
    package, kind = path.relative_to(SOURCES).parts[:2]
    own = [package, kind] if package == KINDS.name else [package]
    for line, module, names in imports(parsed(path), package_of(path, SOURCES)):
        parts = module.split(".")
        if parts[0] not in PACKAGES or parts[: len(own)] == own:
            continue
        private = [name for name in (*parts, *names) if name.startswith("_")]
        assert private == [], f"{name_of(path)}:{line}: {module} {private}"


@pytest.mark.parametrize("kind", sorted(p.name for p in KINDS.iterdir() if p.is_dir()))
def test_kinds_do_not_import_one_another(kind: str) -> None:
    """A kind's plugins stand alone, so that each can be disabled or replaced."""
    kinds = {p.name for p in KINDS.iterdir() if p.is_dir()}
    others = []
    for path in modules(KINDS / kind):
        for line, module, names in imports(parsed(path), package_of(path, SOURCES)):
            parts = module.split(".")
            used = parts[1:2] or names
            if parts[0] == KINDS.name and used[0] in kinds - {kind}:
                others.append(f"{name_of(path)}:{line}: {module}")
    assert others == []


def code_lines(path: Path) -> int:
    """Lines with code: no blank ones, no comments, no docstrings."""
    source = path.read_text(encoding="utf-8")
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings(ast.parse(source)))


def test_code_lines_leave_out_words(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Doc.\n\nMore.\n"""\n\nX = 1  # why\n"""About X."""\n# no\n\nY = (\n    2\n)\n'
    )
    assert code_lines(path) == 4


def lines_of_code(folder: Path) -> int:
    paths = [path for path in modules(folder) if CORE / "testing" not in path.parents]
    return sum(code_lines(path) for path in paths)


@pytest.mark.xfail(reason="the core is still larger than it is meant to be", strict=True)
def test_core_is_small() -> None:
    assert lines_of_code(CORE) < MAX_CORE_LINES


def test_scheduler_is_small() -> None:
    assert lines_of_code(CORE / "scheduler") < MAX_SCHEDULER_LINES


def test_files_are_short() -> None:
    sizes = {name_of(p): len(p.read_text().splitlines()) for p in modules(CORE) + modules(SOURCES)}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


@pytest.mark.parametrize(
    "path",
    [*modules(CORE), *modules(SOURCES), *modules(ROOT / "contrib"), *modules(ROOT / "examples")],
    ids=name_of,
)
def test_functions_are_short(path: Path) -> None:
    is_core = CORE in path.parents and CORE / "testing" not in path.parents
    most = MAX_CORE_FUNCTION_LINES if is_core else MAX_FUNCTION_LINES
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= most, f"{name_of(path)}:{node.lineno}: {size} lines"


@pytest.mark.parametrize(
    "program",
    [
        "import batchwright",
        f"{IMPORT_MAIN}; main(['--help'], standalone_mode=False)",
        f"{IMPORT_MAIN}; main(['run', '--help'], standalone_mode=False)",
    ],
    ids=["import", "help", "run-help"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(program: str) -> None:
    probe = f"import sys; {program}; print('\\n'.join(sys.modules))"
    paths = f"{CORE.parent}:{SOURCES}"
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": paths, "PATH": ""},
    )
    loaded = set(done.stdout.split("\n"))
    assert "batchwright" in loaded
    assert loaded & {*HEAVY, "numpy", "rich"} == set()
