# SPDX-License-Identifier: Apache-2.0
"""Answers: JSON of the tool as objects."""
import json
import types
from typing import TYPE_CHECKING, Any, Dict, Iterator


class Answer(types.SimpleNamespace):
    """An answer with the names of the tool's JSON: `answer.policies[0].pool_bytes`.

    A name that is no identifier is reached with brackets: `answer["all(m)"]`.
    """

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def to_dict(self) -> Dict[str, Any]:
        """Returns the answer as dictionaries and lists."""
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Answer):
        return value.to_dict()
    return [_plain(one) for one in value] if isinstance(value, list) else value


def parse(text: str) -> Answer:
    """Returns the answer of a JSON text."""
    answer: Answer = json.loads(text, object_hook=lambda fields: Answer(**fields))
    return answer
