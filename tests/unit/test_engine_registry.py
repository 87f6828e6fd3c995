"""From ``kind`` to an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.registry import GROUP, create
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.engines.transformers import TransformersEngine
from pytest_specgate.errors import EngineError, MissingPackage
from pytest_specgate.suite.model import EngineSpec


def context(kind: str) -> EngineContext:
    return EngineContext("mine", EngineSpec(kind=kind), Path())


@pytest.mark.parametrize(
    ("kind", "built"),
    [
        ("scripted", ScriptedEngine),
        ("transformers", TransformersEngine),
        ("pytest_specgate.engines.scripted:ScriptedEngine", ScriptedEngine),
    ],
)
def test_builds_by_name_or_reference(kind: str, built: type) -> None:
    engine = create(context(kind))
    assert type(engine) is built
    assert isinstance(engine, Engine)


def test_builds_what_an_installed_package_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "my_decoder-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-decoder\nVersion: 1.0\n")
    target = "pytest_specgate.engines.scripted:ScriptedEngine"
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmy-decoder = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert type(create(context("my-decoder"))) is ScriptedEngine
    with pytest.raises(EngineError, match="did you mean 'my-decoder'"):
        create(context("my-decodr"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "transformer",
            (
                "mine: unknown engine kind 'transformer'; did you mean 'transformers'? — "
                "choose one of native, openai, scripted, transformers, or write 'package.module:Class'"
            ),
        ),
        (
            "not_there:Engine",
            (
                "mine: cannot import 'not_there' (ModuleNotFoundError: No module named 'not_there') — "
                "install it, or check the spelling and that it can be imported from here"
            ),
        ),
        (
            "pytest_specgate.engines.scripted:ScriptEngine",
            (
                "mine: 'pytest_specgate.engines.scripted' has no 'ScriptEngine'; did you mean 'ScriptedEngine'? — "
                "check the spelling"
            ),
        ),
        (
            "collections:UserList",
            (
                "mine: cannot build collections:UserList ('EngineContext' object is not iterable) — "
                "its constructor takes one argument, the EngineContext"
            ),
        ),
    ],
)
def test_errors_say_what_to_do(kind: str, text: str) -> None:
    with pytest.raises(EngineError) as raised:
        create(context(kind))
    assert str(raised.value) == text


def test_a_class_that_lacks_members_is_named_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_an_engine.py").write_text(
        "class Half:\n    capabilities = frozenset()\n    def __init__(self, context): pass\n"
        "    def start(self): pass\n    def generate(self, requests, arm): return []\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EngineError) as raised:
        create(context("half_an_engine:Half"))
    assert str(raised.value) == (
        "mine: half_an_engine:Half is no engine: it lacks check, memory, place, workload, subject, close — "
        "write what pytest_specgate.engines.base.Engine lists"
    )


MISTAKES = """
from pytest_specgate.errors import MissingPackage

class Refusing:
    def __init__(self, context): raise ValueError("port 0\\n  is taken")

class Bare:
    def __init__(self, context): raise ZeroDivisionError

class Verbose:
    def __init__(self, context): raise RuntimeError("word " * 1000)

class Lazy:
    def __init__(self, context): pass
    @property
    def capabilities(self): raise KeyError("model")

class Unarmed:
    def __init__(self): pass

class Deliberate:
    def __init__(self, context): raise MissingPackage("mine", "package 'fast' is not installed", "pip install fast")
"""
CHECK = "check the engine's keys in the suite, then that class's constructor"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Refusing", f"cannot build mistakes:Refusing (ValueError: port 0 is taken) — {CHECK}"),
        ("Bare", f"cannot build mistakes:Bare (ZeroDivisionError) — {CHECK}"),
        ("Verbose", f"cannot build mistakes:Verbose (RuntimeError: {' '.join(['word'] * 60)}) — {CHECK}"),
        ("Lazy", f"cannot build mistakes:Lazy (KeyError: 'model') — {CHECK}"),
        (
            "Unarmed",
            (
                "cannot build mistakes:Unarmed (Unarmed.__init__() takes 1 positional argument but 2 were given) — "
                "its constructor takes one argument, the EngineContext"
            ),
        ),
        ("Deliberate", "package 'fast' is not installed — pip install fast"),
    ],
)
def test_whatever_a_constructor_raises_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mistakes", raising=False)
    with pytest.raises(EngineError) as raised:
        create(context(f"mistakes:{name}"))
    assert str(raised.value) == f"mine: {text}"
    assert (type(raised.value) is MissingPackage) == (name == "Deliberate")


def test_a_module_that_fails_to_import_is_told_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_engine.py").write_text("raise RuntimeError('no licence file')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EngineError, match=r"cannot import 'broken_engine' \(RuntimeError: no licence file\)"):
        create(context("broken_engine:Engine"))


def test_creating_an_engine_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from pytest_specgate.engines.base import EngineContext\n"
        "from pytest_specgate.engines.registry import create\n"
        "from pytest_specgate.suite.model import EngineSpec\n"
        "for kind in ('scripted', 'transformers'):\n"
        "    create(EngineContext('e', EngineSpec(kind=kind), Path()))\n"
        "assert not {'torch', 'transformers', 'numpy', 'gguf'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
