"""An experiment: sets of questions, and variants that are asked all of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from mrag.errors import InputError, SettingsError
from mrag.evaluation.questions import GoldQuestion, of_strangers, read_questions, subset
from mrag.settings import Settings, Strict, load_settings
from mrag.yaml_tree import read_yaml

SET = "{set}"


class QuestionSet(Strict):
    """Questions (JSONL), and the file or folder of the documents that they are about, both below the folder
    of the data. `limit` of the questions are drawn by the experiment's seed.

    `asked_of` names another set: its collections are asked, whose documents answer none of the questions.
    """

    questions: Path
    documents: Path | None = None
    limit: int | None = Field(None, ge=1)
    asked_of: str | None = None


class Experiment(Strict):
    """`settings` hold for all variants; a variant lays its own over them, as `section.key: value`.

    `{set}` in a value is the name of the question set. The others are compared with the first variant.
    `questions_at_once` bounds the questions under way; by default what the language model's settings allow.
    """

    sets: dict[str, QuestionSet] = Field(min_length=1)
    variants: dict[str, dict[str, Any]] = Field(min_length=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    seed: int = 0
    cutoffs: tuple[int, ...] = Field((5, 20), min_length=1)
    questions_at_once: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _asked_of_one_with_documents(self) -> Experiment:
        for name, part in self.sets.items():
            other = part.asked_of and self.sets.get(part.asked_of)
            if part.asked_of and (part.documents or not other or other.asked_of):
                raise ValueError(f"set {name}: asked_of names a set that has none, in place of documents")
        return self


@dataclass(frozen=True)
class Case:
    """One variant on one set of questions. `documents` is where those of the set are, if it says so."""

    set: str
    variant: str
    settings: Settings
    questions: tuple[GoldQuestion, ...]
    documents: Path | None = None


def load_experiment(file: Path) -> Experiment:
    """The experiment of a YAML file. Raises SettingsError, in one sentence."""
    try:
        tree = read_yaml(file.read_text("utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Can't read the experiment {file}: {error}.") from None
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        fault = error.errors()[0]
        path = ".".join(map(str, fault["loc"])) or "(top level)"
        raise SettingsError(f"{file} is no experiment: {path} {fault['msg'].rstrip('.')}.") from None


def cases(
    experiment: Experiment,
    data: Path,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    limit: int | None = None,
    variants: Collection[str] = (),
) -> list[Case]:
    """Every variant on every set, variant by variant. Over the file `config` lie the experiment's settings,
    then `overrides`, then the variant's.

    `limit` holds for sets that have none, or a greater one; `variants` names the ones that are wanted besides
    the first. Raises SettingsError, naming the variant, and InputError for what can't be read.
    """
    questions = {name: _drawn(part, data, limit, experiment.seed) for name, part in experiment.sets.items()}
    holders = {name: part.asked_of or name for name, part in experiment.sets.items()}
    folders = {name: experiment.sets[holder].documents for name, holder in holders.items()}
    return [
        Case(
            name,
            variant,
            _settings(
                variant, holders[name], config, (*_dotted(experiment.settings), *overrides, *_dotted(own))
            ),
            questions[name],
            data / documents if documents else None,
        )
        for variant, own in _wanted(experiment, variants)
        for name, documents in folders.items()
    ]


def _wanted(experiment: Experiment, names: Collection[str]) -> list[tuple[str, Mapping[str, Any]]]:
    if unknown := set(names) - experiment.variants.keys():
        known = "; ".join(experiment.variants)
        raise InputError("variant", f"There is no variant {sorted(unknown)[0]!r}: choose among {known}.")
    everything = list(experiment.variants.items())
    return [everything[0], *(item for item in everything[1:] if not names or item[0] in names)]


def _drawn(part: QuestionSet, data: Path, limit: int | None, seed: int) -> tuple[GoldQuestion, ...]:
    limits = [bound for bound in (part.limit, limit) if bound is not None]
    drawn = subset(read_questions(data / part.questions), min(limits, default=None), seed)
    return tuple(of_strangers(drawn) if part.asked_of else drawn)


def _dotted(tree: Mapping[str, Any]) -> Iterator[str]:
    """As `--set` has it; JSON is YAML."""
    return (f"{name}={json.dumps(value)}" for name, value in tree.items())


def _settings(variant: str, name: str, config: Path | None, overrides: Sequence[str]) -> Settings:
    try:
        return load_settings(config, tuple(override.replace(SET, name) for override in overrides))
    except SettingsError as error:
        raise SettingsError(f"Variant {variant!r}: {error}") from None
