// Empty objects of the API, from its document: a new field needs no line in tests.
import API from "../../crates/server/openapi.json" with { type: "json" };

/** Returns an object with every required field: null, zero, an empty text, or the first word of an enum. */
export function empty(name) {
  return valueOf({ $ref: name });
}

function valueOf(schema) {
  if (schema.$ref) return valueOf(API.components.schemas[schema.$ref.split("/").at(-1)]);
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map(valueOf));
  if (schema.oneOf) return schema.oneOf.some((one) => one.type === "null") ? null : valueOf(schema.oneOf[0]);
  if (schema.enum) return schema.enum[0];
  const types = [schema.type].flat();
  if (types.includes("null")) return null;
  const fields = (schema.required ?? []).map((name) => [name, valueOf(schema.properties[name])]);
  return { string: "", integer: 0, number: 0, boolean: false, array: [], object: Object.fromEntries(fields) }[
    types[0]
  ];
}
