"""The floors of docs/design.md: imports go down, or stay on the floor without a cycle. Parsed, not run.

The table stands in docs/design.md and nowhere else; a new module without a floor fails here.
"""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Floor -> modules. A package stands for all in it; bare package names are doors: what they re-export loads on
# use.
FLOORS: dict[int, list[str]] = {}
_page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
for _line in _page.split("```floors\n")[1].split("```")[0].splitlines():
    FLOORS.setdefault(int(_line.split()[0]), []).extend(_line.split()[1:])
FLOOR_OF = {unit: floor for floor, units in FLOORS.items() for unit in units}
DOORS = ("perfmodel", "perfmodel.validate")
HEAVY = ("matplotlib", "pandas", "scipy", "torch", "transformers", "pyarrow")
# Who may import these while being imported; anyone may inside a function.
AT_MODULE_LEVEL = {
    "matplotlib": ("perfmodel.plots",),
    "pandas": ("perfmodel.plots", "perfmodel.validate"),
    "torch": tuple(f"perfmodel.validate.{name}" for name in ("decoder", "harness", "lm")),
}


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, for every module of the source packages."""
    by_name = {}
    for folder in ("perfmodel", "validate"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = ("perfmodel", *parts) if folder == "validate" else parts
            by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return by_name


def of_validate(name: str) -> bool:
    """`perfmodel.validate` is a house of its own: the folder ``validate/``, linked into the package."""
    return name == "perfmodel.validate" or name.startswith("perfmodel.validate.")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def unit_of(name: str) -> str | None:
    """The entry of FLOORS that a module stands under: itself or the nearest package, the doors only for
    themselves.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        candidate = ".".join(parts[:length])
        if candidate in FLOOR_OF and not (candidate in DOORS and candidate != name):
            return candidate
    return None


def imported(node: ast.AST) -> list[str]:
    """Dotted names that one import statement asks for; `from a import b` is a.b where that is a module, else
    a.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    assert not node.level, "imports name their module in full"
    base = node.module or ""
    inner = (f"{base}.{alias.name}" for alias in node.names)
    return [full if full in modules() else base for full in inner]


def imports(name: str) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of a module, also those inside functions."""
    for node in ast.walk(tree(name)):
        for target in imported(node):
            yield node.lineno, target  # type: ignore[attr-defined]


def imports_on_load(name: str) -> Iterator[tuple[int, str]]:
    """(line, module) of the imports that run when the module is loaded: none inside functions, none for types
    only.
    """
    waiting: list[ast.AST] = [tree(name)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
            continue
        for target in imported(node):
            yield node.lineno, target  # type: ignore[attr-defined]
        waiting.extend(ast.iter_child_nodes(node))


def faults(wrong: Callable[[str, str], object], on_load: bool = False) -> list[str]:
    """Every import of a module, or those that run when it is loaded, of which `wrong(module, imported)`
    holds.
    """
    listed = imports_on_load if on_load else imports
    return [
        f"{name}:{line} imports {to}" for name in modules() for line, to in listed(name) if wrong(name, to)
    ]


def test_every_module_has_a_floor_and_the_table_names_what_there_is() -> None:
    """No floor for a module that is gone, and none twice."""
    assert [name for name in modules() if not unit_of(name)] == [], "give it a floor in docs/design.md"
    names = [name for units in FLOORS.values() for name in units]
    assert len(names) == len(set(names))
    assert set(names) <= {*modules(), "hardware", "results", "perfmodel.models"}


def test_imports_go_down() -> None:
    floor = {name: FLOOR_OF[unit_of(name) or ""] for name in modules()}
    assert not faults(lambda name, to: to in floor and floor[to] > floor[name])


def assert_no_cycle(unit: Callable[[str], str | None], inside: Callable[[str], bool]) -> None:
    """Of what `unit` makes of the modules that are `inside`."""
    edges: dict[str | None, set[str | None]] = {}
    for name in filter(inside, modules()):
        edges.setdefault(unit(name), set()).update(unit(to) for _, to in imports(name) if inside(to))
    TopologicalSorter({name: to - {name} for name, to in edges.items()}).prepare()  # raises CycleError


def test_no_cycles_between_units_of_a_floor_nor_modules_of_perfmodel() -> None:
    """Of modules not even through imports that wait inside a function."""
    assert_no_cycle(unit_of, lambda name: name in modules())
    assert_no_cycle(str, lambda name: name in modules() and not of_validate(name))


def test_perfmodel_never_imports_validate_below_the_roof_nor_torch_anywhere() -> None:
    perfmodel_modules = {name for name in modules() if not of_validate(name)}
    assert not faults(
        lambda name, to: name in perfmodel_modules and unit_of(name) != "perfmodel.cli" and of_validate(to)
    )
    assert not faults(
        lambda name, to: (
            name in perfmodel_modules and to.split(".")[0] in ("torch", "transformers", "safetensors")
        )
    )


def test_heavy_packages_load_only_where_they_may() -> None:
    def wrong(name: str, to: str) -> bool:
        allowed = AT_MODULE_LEVEL.get(to.split(".")[0])
        return allowed is not None and not any(f"{name}.".startswith(f"{place}.") for place in allowed)

    assert not faults(wrong, on_load=True)


LIGHT = f"""
import sys
opened = []
def hook(event, args):
    if event == "open" and isinstance(args[0], str):
        opened.append(args[0])
sys.addaudithook(hook)
import perfmodel
data = [path for path in opened if not path.endswith((".py", ".pyc", ".so", ".pyd", ".pth"))]
heavy = sorted(set({HEAVY!r}) & set(sys.modules))
print(repr((data, heavy)))
"""


def test_importing_perfmodel_is_light() -> None:
    """It reads no data file and loads none of the heavy packages."""
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout.strip()) == ([], [])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b", "a.b"),
        ("from perfmodel import errors", "perfmodel.errors"),
        ("from perfmodel.specs.boundary.units import FACTORS", "perfmodel.specs.boundary.units"),
    ],
)
def test_the_parser_sees_every_spelling(source, expected) -> None:
    """A check counts once it has been seen to work."""
    assert imported(ast.parse(source).body[0]) == [expected]
