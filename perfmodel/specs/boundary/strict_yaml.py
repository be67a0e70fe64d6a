"""YAML as users may give it: plain keys, each once, no aliases, not deep."""

import re
from typing import Any

import yaml

MAX_DEPTH = 50
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(SafeLoader):  # type: ignore[misc]
    """YAML with plain keys, each given once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: must be a mapping")
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, (str, int, float)):
                raise yaml.YAMLError(
                    f"line {key_node.start_mark.line + 1}: keys must be plain text or numbers"
                )
            if key in seen:
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: key {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789")
)  # 1e-5, which YAML 1.1 takes for text


def read_yaml(text: str) -> Any:
    """What a text holds. Raises ValueError for what is not such YAML.

    The flat event stream comes first: the C loader builds aliases (billion laughs) and crashes on deep
    nesting.
    """
    depth = 0
    try:
        for event in yaml.parse(text, SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("YAML aliases (*name) are not allowed")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH}")
        return yaml.load(text, _StrictLoader)
    except (yaml.YAMLError, AttributeError) as error:  # AttributeError: PyYAML on a broken "!!timestamp"
        raise ValueError(str(error)) from None
