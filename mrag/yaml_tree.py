"""YAML into plain values, strictly: a key stands once, and what looks like a date stays text."""

from __future__ import annotations

from typing import Any

import yaml

from mrag.errors import SettingsError

_DATE = "tag:yaml.org,2002:timestamp"
# What PyYAML's constructors let through beside its own errors: `!!int x`, 5,000 digits, `[[[[...`.
_FAULTS = (
    yaml.YAMLError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    TypeError,
    RecursionError,
)


class _Loader(yaml.SafeLoader):
    # PyYAML's own, whatever other libraries of this process have taught SafeLoader since.
    yaml_constructors = dict(yaml.constructor.SafeConstructor.yaml_constructors)  # noqa: RUF012
    yaml_implicit_resolvers = {  # noqa: RUF012  the name and kind are PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
        for first, resolvers in yaml.resolver.Resolver.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.composer.ComposerError(
                    None, None, f"found the key {key.value!r} twice", key.start_mark
                )
            seen.add(key.value)
        return node


def read_yaml(text: str, origin: str) -> Any:
    """The values of one YAML document. Raises SettingsError, in one sentence that begins with `origin`."""
    try:
        return yaml.load(text, _Loader)
    except _FAULTS as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise SettingsError(f"{origin} is not valid YAML: {reason or type(error).__name__}.") from None
