/** Returns the trimmed text of a form field, or undefined if it is empty. */
export function field(form: FormData, name: string): string | undefined {
  const value = form.get(name);
  return (typeof value === "string" && value.trim()) || undefined;
}
