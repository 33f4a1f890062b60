"""The SDKs' own parameter types, closed: a field that a type does not have is refused.

The SDKs describe requests by `TypedDict`s, which pydantic reads as open, and by `Iterable`s, which
it reads lazily, that is, not at all until somebody asks. Both are changed in the schema that
pydantic makes of the type; the fields, their types and the literals stay the SDK's.
"""

import copy
import json

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError

# Below these keys a vendor takes any JSON.
FREE = {
    "args",
    "input",
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "response",
    "responseJsonSchema",
    "schema",
}


def closed(type_):
    """Makes a validator of a type of the SDK."""
    schema = TypeAdapter(type_).core_schema
    return SchemaValidator(_close(schema))


def _close(schema):
    if isinstance(schema, (list, tuple)):
        return type(schema)(_close(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    made = {key: _close(value) for key, value in schema.items()}
    if made.get("type") == "model" and made.get("config", {}).get("extra_fields_behavior") != "forbid":
        # Its fields instead of the class, which has an open validator of its own already.
        named = {"ref": made["ref"]} if "ref" in made else {}
        made = {**made["schema"], **named}
    if made.get("type") in ("typed-dict", "model-fields"):
        made["extra_behavior"] = "forbid"
    if made.get("type") == "generator" and "items_schema" in made:
        made["type"] = "list"
    return made


def problems(validator, body):
    """What is wrong with a body, one line for each field; nothing if all is well."""
    try:
        validator.validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        return [f"{_path(item['loc'])}: {item['msg']}" for item in error.errors(include_url=False)]
    return []


def _path(location):
    return ".".join(str(part) for part in location)


def misspellings(validator, body):
    """Misspells each key of a body in turn; gives how many there were, and which were taken."""
    paths = list(_key_paths(body))
    taken = [path for path in paths if not problems(validator, _misspelt(body, path))]
    return len(paths), [_path(path) for path in taken]


def _key_paths(value, path=()):
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _key_paths(item, (*path, at))
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            if not (key in FREE and isinstance(item, dict)):
                yield from _key_paths(item, (*path, key))


def _misspelt(body, path):
    changed = copy.deepcopy(body)
    place = changed
    for step in path[:-1]:
        place = place[step]
    key = path[-1]
    place[key[:-1] + ("x" if key[-1] != "x" else "y")] = place.pop(key)
    return changed
