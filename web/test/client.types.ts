// Calls that the compiler must reject, checked by `npm run check`; nothing here is executed. If one of them
// compiles, its `@ts-expect-error` is unused and the check fails.
import { get, getPage, getText, post } from "../src/api/client";

export async function callsAreCheckedAgainstTheSchema(): Promise<void> {
  // @ts-expect-error: the path does not exist
  await get("/api/nothing");
  // @ts-expect-error: the path has no such method
  await post("/api/me");
  // @ts-expect-error: a path parameter is missing
  await get("/api/tasks/{id}");
  // @ts-expect-error: a path parameter has another name
  await get("/api/tasks/{id}", { path: { name: "a" } });
  // @ts-expect-error: the query has no such parameter
  await get("/api/tasks", { query: { colour: "red" } });
  // @ts-expect-error: the body is missing
  await post("/api/tasks/{id}/steer", { path: { id: "a" } });
  // @ts-expect-error: the body has another shape
  await post("/api/tasks/{id}/steer", { path: { id: "a" }, body: { words: "b" } });
  // @ts-expect-error: the answer is not a list
  await getPage("/api/me");
  // @ts-expect-error: the answer is not plain text
  await getText("/api/me");
  // @ts-expect-error: the answer has no such field
  (await get("/api/tasks/{id}", { path: { id: "a" } })).colour satisfies string;
}
