import type { components } from "../src/api/schema";

type Schemas = components["schemas"];
export function empty<Name extends keyof Schemas>(name: Name): Schemas[Name];
