"""JSON Schemas (2020-12, as OpenAPI 3.1 uses it) of the types at the edge."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"


class Schemas:
    """The schemas of types, and the components that they refer to, each under its class's name.

    ``words`` are Literals by name: wherever one stands in a type it becomes a component too, so that a generated client
    has one type for it.
    """

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.components: dict[str, Schema] = {}
        self._words = {frozenset(get_args(literal)): name for name, literal in words.items()}
        if len(self._words) != len(words):
            raise ValueError("two names stand for the same words")

    def of(self, type_: Any) -> Schema:  # noqa: ANN401 - any annotation
        """The schema of a type; the Structs in it become components."""
        (schema,), found = msgspec.json.schema_components([type_], ref_template=_REFERENCE)
        for name, component in found.items():
            described = in_markdown(self._typed(component))
            if self.components.setdefault(name, described) != described:
                raise ValueError(f"two types at the edge are called {name}")
        named: Schema = self._typed(schema)
        return named

    def refer(self, name: str, component: Schema) -> Schema:
        """A reference to a component that is no Struct."""
        self.components[name] = component
        return {"$ref": _REFERENCE.format(name=name)}

    def parameters(self, query: type[msgspec.Struct]) -> Iterator[Schema]:
        """The query parameters that `relay.http.parameters.read_query` takes for this type."""
        _, found = msgspec.json.schema_components([query], ref_template=_REFERENCE)
        own = self._typed(found[query.__name__])
        for name, schema in own["properties"].items():
            parameter = {"name": name, "in": "query", "required": name in own.get("required", ())}
            yield _with_description(parameter, _without_null(schema))

    def _typed(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """The same for programs that make types of it. Words have their type and, where there is one, their name. An
        object of any members says so. No member has a default that says what leaving it out says already: generators
        take such a member for one that always has to be there.
        """
        if isinstance(value, list):
            return [self._typed(item) for item in value]
        if not isinstance(value, dict):
            return value
        kept = {key: self._typed(item) for key, item in value.items() if key != "default" or item}
        if kept == {"type": "object"}:
            return {**kept, "additionalProperties": True}
        words = kept.get("enum")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return kept
        typed = {"type": "string", **kept}
        name = self._words.get(frozenset(words))
        return self.refer(name, typed) if name is not None and set(kept) == {"enum"} else typed


def parameter(name: str, place: str, schema: Schema) -> Schema:
    """A parameter whose description is its schema's."""
    return _with_description({"name": name, "in": place, "required": place == "path"}, dict(schema))


def in_markdown(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The same with descriptions in CommonMark: docstrings mark code with two backticks, and wrap their lines."""
    if isinstance(value, list):
        return [in_markdown(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: markdown(item) if name == "description" and isinstance(item, str) else in_markdown(item)
        for name, item in value.items()
    }


def markdown(docstring: str) -> str:
    """A docstring as CommonMark, with each paragraph on one line."""
    paragraphs = docstring.replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _with_description(parameter: Schema, schema: Schema) -> Schema:
    description = schema.pop("description", None)
    return {**parameter, **({"description": markdown(description)} if description else {}), "schema": schema}


def _without_null(schema: Schema) -> Schema:
    """A parameter that may be left out is None inside; on the wire there is no null."""
    kept = {name: value for name, value in schema.items() if (name, value) != ("default", None)}
    choices = [choice for choice in kept.pop("anyOf", ()) if choice != {"type": "null"}]
    return {**kept, **(choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})}
