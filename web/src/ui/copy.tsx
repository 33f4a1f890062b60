// Buttons that copy a text to the clipboard.
import { t, type Key } from "../i18n";
import { Icon } from "./icons";
import { attempt } from "./parts";

/** What a button copies; its name and the note have a text each. */
export type Copied = "result" | "text" | "id" | "transcript" | "answer";

/** Copies a text. Browsers offer the clipboard only to secure origins, so others get the older way. */
async function copy(text: string): Promise<void> {
  // Undefined on addresses without TLS on other machines, whatever its type says.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) {
    try {
      return await clipboard.writeText(text);
    } catch {
      // Not permitted; the older way may be.
    }
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  const before = document.activeElement;
  field.select();
  // Deprecated, and the only way without the clipboard API.
  const copied = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  if (!copied) throw new Error(t("copy.refused"));
}

/** A button that copies what `text` returns. */
export function Copy({ what, text, named = false }: { what: Copied; text: () => string; named?: boolean }) {
  const name = t(`copy.${what}` as Key);
  return (
    <button
      type="button"
      class={`button small copy ${named ? "" : "plain"}`}
      aria-label={named ? undefined : name}
      title={name}
      onClick={(event) => {
        event.preventDefault();
        void attempt(copy(text()), () => t(`copied.${what}` as Key));
      }}
    >
      <Icon name="copy" size={13} />
      {named && name}
    </button>
  );
}
