"""Documents of several languages in one collection: each by its own analyzer, and scores as exact as ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mrag.collection import Collection, ShardEntry
from mrag.collection.analysis import Analyzer, words_in
from mrag.collection.languages import detected
from mrag.errors import SettingsError
from mrag.settings import SparseSettings
from tests.collection_corpus import STAMP, add, ask, make_entry, with_units
from tests.exact_reference import assert_alike, assert_best, bm25_of_words

STAMP_AUTO = replace(STAMP, analyzer="auto")
TEXTS = {
    "en": "The bridges over the river were built by engineers from the city in the year of the flood.",
    "de": "Die Brücken über den Fluss wurden von den Ingenieuren der Stadt im Jahr der Flut gebaut.",
    "fr": "Les ponts sur la rivière ont été construits par les ingénieurs de la ville après l'inondation.",
    "sv": "Broarna över floden byggdes av stadens ingenjörer under det år då översvämningen kom.",
    "zh": "这座横跨河流的大桥是由城市的工程师在洪水之年建造的，桥长一百米。",
    "ar": "بنى مهندسو المدينة الجسور فوق النهر في عام الفيضان، ويبلغ طول الجسر مئة متر.",
    "ja": "この川に架かる橋は、洪水の年に市の技術者たちによって建設されました。",
    "und": "Tidewren 4",
}
# What a question has of a word that the text has in another form.
FORMS = {
    "en": "bridge engineering",
    "de": "Brücke Ingenieur",
    "fr": "pont ingénieur",
    "sv": "bro ingenjör",
    "zh": "大桥 工程师",
    "ar": "والجسور",
    "ja": "橋を建設",
    "und": "TIDEWREN",
}


def entries(*more: str) -> list[ShardEntry]:
    """A document of each language, and of each text of `more`."""
    named = [*TEXTS.items(), *((text[:20], text) for text in more)]
    return [make_entry(name, [[text]]) for name, text in named]


def sparse(root: Path, name: str, query: str) -> list[tuple[str, float]]:
    hits = Collection.open(root, name, legs=("sparse",)).search(replace(ask(query, 50), legs=("sparse",)))
    return [(hit.record_id, hit.score) for hit in hits["sparse"]]


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_text_is_detected(language: str) -> None:
    assert detected(TEXTS[language]) == language


@pytest.mark.parametrize("text", ["", " ", "x = 3", "12.5 %", "A new pier.", "\ud800"])
def test_what_is_not_sure_has_no_language(text: str) -> None:
    assert detected(text.encode("utf-8", "replace").decode()) == "und"


@pytest.mark.parametrize("language", TEXTS)
def test_other_forms_of_a_word_are_found_in_its_language(tmp_path: Path, language: str) -> None:
    add(tmp_path, "c", entries(), stamp=STAMP_AUTO)
    assert sparse(tmp_path, "c", FORMS[language])[0][0] == f"{language}#1"


def test_units_are_analysed_as_their_document_is(tmp_path: Path) -> None:
    stamp = replace(STAMP_AUTO, searched="keys+units")
    add(tmp_path, "c", [with_units(entry) for entry in entries()], stamp=stamp)
    found = Collection.open(tmp_path, "c").search(ask("Brücke Ingenieur", unit_weight=1.0))
    assert [hit.record_id for hit in found["sparse"]][:1] == ["de#1"]


MORE = (
    "Ein Ingenieur der Stadt hat die alte Brücke im Winter gezeichnet, und die Zeichnung liegt im Archiv.",
    "An engineer of the city has drawn the old bridge in winter, and the drawing lies in the archive.",
    "Une ingénieure de la ville a dessiné le vieux pont en hiver, et le dessin se trouve aux archives.",
)
QUERIES = (*FORMS.values(), "die Brücke winter bridge", "le pont de la ville", "the archive archive")


def test_scores_are_those_of_bm25_over_the_words_of_all_languages(tmp_path: Path) -> None:
    written = entries(*MORE)
    add(tmp_path, "c", written, shards=2, stamp=STAMP_AUTO)
    texts = [entry.key_texts[0][0] for entry in written]
    languages = [detected(text) for text in texts]
    assert languages[-3:] == ["de", "en", "fr"]
    words = [Analyzer(language).words(text) for language, text in zip(languages, texts, strict=True)]
    collection = Collection.open(tmp_path, "c", legs=("sparse",))
    assert collection.manifest.counts.words == sum(map(len, words))
    for query in QUERIES:
        scores = bm25_of_words(words, words_in(set(languages), query))
        best = {
            f"{entry.built.document.id}#1": score
            for entry, score in zip(written, scores, strict=True)
            if score > 0
        }
        for depth in (3, 50):
            hits = collection.search(replace(ask(query, depth), legs=("sparse",)))["sparse"]
            assert_best(hits, best, depth)


def test_scores_depend_neither_on_layout_nor_on_the_dead_nor_on_their_languages(tmp_path: Path) -> None:
    kept = [entry for entry in entries(*MORE) if entry.built.document.id not in ("de", MORE[0][:20])]
    add(tmp_path, "one", kept, stamp=STAMP_AUTO)
    for number in range(0, len(kept), 3):
        add(tmp_path, "parts", reversed(kept[number : number + 3]), shards=2, stamp=STAMP_AUTO)
    add(tmp_path, "dead", entries(*MORE), shards=2, stamp=STAMP_AUTO)
    add(tmp_path, "dead", [], replaced=["de", MORE[0][:20]], stamp=STAMP_AUTO)
    one, parts, dead = (Collection.open(tmp_path, name) for name in ("one", "parts", "dead"))
    for query in QUERIES:
        for depth in (2, 50):
            found = [collection.search(ask(query, depth)) for collection in (one, parts, dead)]
            assert_alike(found[0], found[1])
            assert_alike(found[0], found[2])


def test_a_repeated_word_counts_as_often_as_it_is_asked(tmp_path: Path) -> None:
    add(tmp_path, "c", entries(), stamp=STAMP_AUTO)
    once, twice = (dict(sparse(tmp_path, "c", query)) for query in ("Ingenieur", "Ingenieur Ingenieur"))
    assert twice["de#1"] == pytest.approx(2 * once["de#1"])


def test_a_language_without_an_analyzer_takes_words_as_they_are(tmp_path: Path) -> None:
    polish = "Mosty nad rzeką zostały zbudowane przez inżynierów miasta w roku wielkiej powodzi."
    assert detected(polish) == "pl"
    add(tmp_path, "c", [*entries(), make_entry("pl", [[polish]])], stamp=STAMP_AUTO)
    assert sparse(tmp_path, "c", "INŻYNIERÓW rzeką")[0][0] == "pl#1"


def test_a_collection_of_one_set_language_is_analysed_as_before(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("d", [["Ingenjörerna bygger"]])], stamp=replace(STAMP, analyzer="sv"))
    assert sparse(tmp_path, "c", "ingenjör")[0][0] == "d#1"


def test_an_unknown_language_names_the_way_out() -> None:
    with pytest.raises(SettingsError, match=r"choose one of ar, .*or auto to have each document's detected"):
        Analyzer("xx")
    assert SparseSettings(language="auto").language == "auto"
