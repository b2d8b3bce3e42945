"""`mrag compare` from an experiment file to its tables: the real access path, scripted replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag.cli import app, measuring
from mrag.errors import InputError, NotFoundError, SettingsError
from mrag.evaluation import compare
from mrag.evaluation.comparison import Comparison
from mrag.evaluation.evaluate import Evaluation
from mrag.evaluation.experiment import Case, cases, load_experiment
from mrag.evaluation.markdown import markdown
from mrag.evaluation.measures import Row
from mrag.evaluation.questions import GoldQuestion
from mrag.indexing import run
from mrag.models.tokens import ByteTokenizer
from mrag.settings import Settings
from tests.hash_encoder import HashEncoder

SAMPLE = Path(str(files("mrag") / "data" / "sample"))
EXPERIMENTS = Path(__file__).parents[2] / "configs" / "experiments"
ROWS = [
    {"source": "S1", "fact": "nobody wrote this", "relevance": "x", "quote": "nobody wrote this"},
    {"source": "S1", "fact": "Zorblatt left in 1871", "relevance": "x", "quote": "nobody wrote that"},
]
RULES: list[dict[str, Any]] = [
    {"purpose": "select", "reply": {"selected": [6, 7, 8, 9, 10]}},
    {"purpose": "evidence", "reply": {"table": {"schema": "ATOMIC", "rows": ROWS}}},
    {"purpose": "answer", "contains": ["Question: Which engineer"], "reply": "Rurik Tamsin"},
    {"purpose": "answer", "reply": "nobody knows"},
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (run, compare):
        monkeypatch.setattr(module, "open_encoder", lambda _: HashEncoder())
    monkeypatch.setattr(run, "load_tokenizer", lambda _: ByteTokenizer())
    monkeypatch.setattr(measuring, "fetch_model", lambda *_: None)
    script(tmp_path, RULES)
    return tmp_path


def script(root: Path, rules: Sequence[Mapping[str, Any]]) -> None:
    (root / "script.jsonl").write_text("\n".join(map(json.dumps, rules)))


def command(root: Path, *arguments: str, experiment: Path = EXPERIMENTS / "sample.yaml") -> Any:
    places = [f"collection.root={root / 'root'}", "language_model.engine=scripted"]
    places += [f"language_model.replies={root / 'script.jsonl'}"]
    settings = [part for place in places for part in ("--set", place)]
    line = ["compare", str(experiment), "--data", str(SAMPLE), *settings, *arguments]
    return CliRunner().invoke(app, line)


def table(text: str, title: str) -> dict[str, dict[str, str]]:
    """The cells of one Markdown table, by variant and column."""
    lines = text.split(f"### {title}\n")[1].split("###")[0].splitlines()
    head, _, *rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def test_the_sample_experiment_makes_its_table(root: Path) -> None:
    files = ["--json", str(root / "c.json"), "--markdown", str(root / "c.md")]
    ended = command(root, "--index", *files)
    assert ended.exit_code == 0, (ended.output, ended.exception)
    assert (root / "c.md").read_text("utf-8") == ended.stdout
    tree = json.loads((root / "c.json").read_text("utf-8"))
    shown = table(ended.stdout, "sample: sample")
    assert list(shown) == ["plain, first 5", "plain, 640 tokens", "SANE"]
    for variant, found in tree["tables"]["sample"].items():
        for name, cell in shown[variant].items():
            if name.endswith(" %") and cell != "–":
                measure = found["measures"][name.removesuffix(" %")]
                assert float(cell.split(" ")[0]) == pytest.approx(100 * measure["mean"], abs=0.051)
                assert measure["low"] <= measure["mean"] <= measure["high"]
    plain, sane = tree["cases"][0]["rows"], tree["cases"][2]["rows"]
    assert len(plain) == len(sane) == 12
    assert [row["usage"]["calls"] for row in plain] == [1] * 12
    for row in sane:
        assert row["unselected"] == {kind: by_k["5"] for kind, by_k in row["recall"].items()}
    gain = [row["read"]["passages"] - row["unselected"]["passages"] for row in sane]
    measures = tree["tables"]["sample"]["SANE"]["measures"]
    assert measures["gain"]["mean"] == pytest.approx(sum(gain) / 12)
    assert measures["verified"]["mean"] == pytest.approx(0.5)
    assert measures["exact match"]["mean"] == pytest.approx(1 / 12)
    assert set(shown["plain, first 5"].values()) >= {"–"}


def test_a_second_run_needs_no_replies_and_says_the_same(root: Path) -> None:
    first = command(root, "--index", "--json", "-")
    script(root, [])
    second = command(root, "--json", "-")
    trees = [json.loads(ended.stdout) for ended in (first, second)]
    passed = [without_seconds(tree) for tree in trees]
    assert trees[0] == trees[1]
    assert any(passed[0])
    assert not any(passed[1])  # kept replies say nothing of how long a question takes


def without_seconds(tree: dict[str, Any]) -> list[float]:
    """Takes out what another run does not have; gives the seconds of the questions."""
    lines = [line for found in tree["tables"].values() for line in found.values()]
    for kind in ("measures", "differences"):
        for line in lines:
            line[kind].pop("seconds", None)
    for case in tree["cases"]:
        del case["seconds"]
    return [row.pop("stage_seconds") for case in tree["cases"] for row in case["rows"]]


def test_other_replies_are_kept_elsewhere(root: Path) -> None:
    command(root, "--index", "--variant", "plain, 640 tokens")
    script(root, [])
    ended = command(root, "--variant", "plain, 640 tokens", "--replies", str(root / "others"), "--json", "-")
    assert all(row["f1"] == 0.0 for case in json.loads(ended.stdout)["cases"] for row in case["rows"])


def test_retrieval_alone_needs_no_model(root: Path) -> None:
    command(root, "--index", "--retrieval-only")
    (root / "script.jsonl").unlink()
    ended = command(root, "--retrieval-only", "--limit", "4")
    shown = table(ended.stdout, "sample: sample")
    assert {tuple(row) for row in shown.values()} == {("variant", "recall@5 %", "recall@20 %")}
    assert "\n4 questions of sample" in ended.stdout


# --------------------------------------------------------------------------- what an experiment says

TWO = {
    "sets": {
        "one": {"questions": "one.jsonl", "documents": "one.json"},
        "two": {"questions": "two.jsonl", "limit": 1},
    },
    "settings": {"collection.name": "{set}-units", "method": "sane"},
    "variants": {
        "base": {"method.retrieval.name": "keys"},
        "raw": {"method.reader": {"name": "plain", "k": 3}, "collection.name": "{set}-raw"},
        "wide": {"method.reader.w": 40},
    },
}


def experiment(folder: Path, tree: Any) -> Path:
    file = folder / "two.yaml"
    file.write_text(json.dumps(tree))
    for name in ("one", "two"):
        lines = [json.dumps({"id": f"{name}{n}", "question": "What?"}) for n in range(3)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return file


def test_a_variant_lies_over_what_holds_for_all(tmp_path: Path) -> None:
    loaded = load_experiment(experiment(tmp_path, TWO))
    planned = cases(loaded, tmp_path, overrides=("method.reader.k=4", "collection.name=ours"))
    assert [(case.variant, case.set) for case in planned] == [
        (variant, name) for variant in TWO["variants"] for name in TWO["sets"]
    ]
    base, _, raw, other, wide, _ = (case.settings for case in planned)
    assert (base.collection.name, raw.collection.name, other.collection.name) == (
        "ours",
        "one-raw",
        "two-raw",
    )
    assert (base.method.reader.k, raw.method.reader.name, raw.method.reader.k) == (4, "plain", 3)
    assert (wide.method.reader.name, wide.method.builder.name) == ("sane", "units")
    assert [len(case.questions) for case in planned[:2]] == [3, 1]
    assert [case.documents for case in planned[:2]] == [tmp_path / "one.json", None]
    assert cases(loaded, tmp_path)[0].settings.collection.name == "one-units"
    few = cases(loaded, tmp_path, limit=2, variants=["wide"])
    assert [(case.variant, len(case.questions)) for case in few] == [
        ("base", 2),
        ("base", 1),
        ("wide", 2),
        ("wide", 1),
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"variants": {}}, "variants"),
        ({"sets": {"one": {"question": "x"}}}, "sets.one.question"),
        ({"seeds": 1}, "seeds"),
    ],
)
def test_what_is_no_experiment_is_named(tmp_path: Path, change: Any, says: str) -> None:
    file = experiment(tmp_path, {**TWO, **change})
    with pytest.raises(SettingsError, match=rf"two\.yaml is no experiment: {says}"):
        load_experiment(file)


def test_a_variant_that_can_not_be_is_named(tmp_path: Path) -> None:
    loaded = load_experiment(experiment(tmp_path, {**TWO, "variants": {"odd": {"method.reader.x": 1}}}))
    with pytest.raises(SettingsError, match=r"Variant 'odd': .*method.reader.*x is not a setting"):
        cases(loaded, tmp_path)
    with pytest.raises(InputError, match="no variant 'even': choose among odd"):
        cases(loaded, tmp_path, variants=["even"])


def test_collections_that_are_not_there_are_named_before_any_work(root: Path) -> None:
    file = experiment(root, TWO)
    with pytest.raises(NotFoundError, match="one-units, two-units, one-raw, two-raw"):
        raise command(root, "--data", str(root), experiment=file).exception
    (root / "one.json").write_text("x")
    with pytest.raises(NotFoundError, match="two names no documents"):
        raise command(root, "--data", str(root), "--index", experiment=file).exception


def test_of_one_collection_the_variant_that_searches_most_is_indexed(tmp_path: Path) -> None:
    tree = {**TWO, "variants": {"less": {"method": "m-rag"}, "more": {"method.retrieval.name": "keys+units"}}}
    planned = cases(load_experiment(experiment(tmp_path, tree)), tmp_path)
    assert [case.variant for case in compare.missing(planned)] == ["more", "more"]


def test_the_collections_of_a_set_are_asked_what_strangers_ask(tmp_path: Path) -> None:
    strange = {"questions": "two.jsonl", "asked_of": "one"}
    file = experiment(tmp_path, {**TWO, "sets": {"one": TWO["sets"]["one"], "strange": strange}})
    (tmp_path / "two.jsonl").write_text(
        '{"id": "q", "question": "Who?", "answers": ["I"], "gold_doc_ids": ["d"]}'
    )
    planned = [case for case in cases(load_experiment(file), tmp_path) if case.set == "strange"]
    assert [case.settings.collection.name for case in planned[:2]] == ["one-units", "one-raw"]
    assert {case.documents for case in planned} == {tmp_path / "one.json"}
    assert {case.questions for case in planned} == {
        (GoldQuestion(id="q", question="Who?", unanswerable=True),)
    }


@pytest.mark.parametrize(
    "part", [{"asked_of": "none"}, {"asked_of": "strange"}, {"asked_of": "one", "documents": "d.json"}]
)
def test_strangers_ask_of_a_set_that_has_collections(tmp_path: Path, part: dict[str, str]) -> None:
    strange = {"questions": "two.jsonl", **part}
    file = experiment(tmp_path, {**TWO, "sets": {"one": TWO["sets"]["one"], "strange": strange}})
    with pytest.raises(SettingsError, match="set strange: asked_of names a set that has none"):
        load_experiment(file)


def test_the_shipped_experiments_can_be_planned(tmp_path: Path) -> None:
    for file in EXPERIMENTS.glob("*.yaml"):
        loaded = load_experiment(file)
        for part in loaded.sets.values():
            (tmp_path / part.questions).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / part.questions).write_text('{"id": "q", "question": "What?"}')
        planned = cases(loaded, tmp_path)
        assert len(planned) == len(loaded.sets) * len(loaded.variants)
        assert len({(case.set, str(case.settings)) for case in planned}) == len(planned)


@pytest.mark.parametrize(
    ("file", "variant", "but"),
    [
        ("reading", "ours as shipped", {}),
        ("selection", "shipped pool, likelihood", {"extract": False}),
        ("pool", "as shipped", {"extract": False}),
    ],
)
def test_what_is_shipped_is_among_the_variants(
    file: str, variant: str, but: dict[str, Any], tmp_path: Path
) -> None:
    loaded = load_experiment(EXPERIMENTS / f"{file}.yaml")
    for part in loaded.sets.values():
        (tmp_path / part.questions).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / part.questions).write_text('{"id": "q", "question": "What?"}')
    planned = [case for case in cases(loaded, tmp_path) if case.variant == variant]
    shipped = Settings().method
    expected = shipped.model_copy(update={"reader": shipped.reader.model_copy(update=but)})
    assert [case.settings.method for case in planned] == [expected] * len(loaded.sets)


# --------------------------------------------------------------------------- tables


def row(name: str, exact: float | None, found: float, error: str = "") -> Row:
    return Row(name, "?", (), {"documents": {5: found}}, exact_match=exact, f1=exact, error=error)


def comparison(**rows: list[Row]) -> Comparison:
    sets = {"s": [one for one in rows["base"] if one.id < "q3"], "t": []}
    cases_ = [Case(name, variant, Settings(), ()) for variant in rows for name in sets]
    found = [
        Evaluation(1, tuple(one for one in rows[case.variant] if (one.id < "q3") == (case.set == "s")), 0.0)
        for case in cases_
    ]
    return Comparison("made", cases_, found, seed=0)


def test_tables_are_made_for_each_set_and_for_all() -> None:
    base = [row("q1", 1.0, 1.0), row("q2", 0.0, 1.0), row("q3", 0.0, 0.0), row("q4", None, 0.0)]
    other = [
        row("q1", 1.0, 1.0),
        row("q2", 1.0, 0.0),
        row("q3", 1.0, 1.0),
        row("q4", None, 0.0, "it | broke"),
    ]
    made = comparison(base=base, other=other)
    text = markdown(made.sections())
    assert table(text, "made: s")["base"]["exact match %"].startswith("50.0 [")
    assert table(text, "made: t")["other"]["exact match %"] == "100.0 [100.0, 100.0]"
    assert table(text, "made: all sets")["other"]["recall@5 %"].startswith("50.0 [")
    assert table(text, "made: s, differences") == {
        "other": {
            "variant": "other",
            "recall@5 %": "-50.0 [-100.0, +0.0]",
            "exact match %": "+50.0 [+0.0, +100.0]",
            "F1 %": "+50.0 [+0.0, +100.0]",
        }
    }
    assert "| other | q4: it \\| broke | 1 |" in text
    assert made.exit_code == 1
    pooled = made.as_dict()["tables"]["all sets"]["other"]
    assert pooled["differences"]["exact match"]["mean"] == pytest.approx(2 / 3)
    assert pooled["measures"]["exact match"]["count"] == 3


def test_a_measure_that_only_one_variant_has_is_not_compared() -> None:
    made = comparison(base=[row("q1", None, 1.0)], other=[row("q1", 1.0, 1.0)])
    text = markdown(made.sections())
    assert table(text, "made: s")["base"]["F1 %"] == "–"
    assert "F1 %" not in table(text, "made: s, differences")["other"]
