// Names and labels come from strangers. React shows them as text; what is left are characters that change how the rest
// of the line reads (right-to-left marks) or that nobody sees (zero width, control): those are written out.

// C0 and C1 controls, soft hyphen, Arabic letter mark, zero-width and direction marks, embeddings, isolates, invisible
// operators, the byte order mark.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function hasHidden(text: string): boolean {
  return text.search(HIDDEN) >= 0;
}

/** The text with each character that is not seen as `\uXXXX`, as JSON and the shells' `$'...'` have it. */
export function escapeHidden(text: string): string {
  return text.replace(HIDDEN, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The text with each character that is not seen, or that turns the line, as `[U+202E]`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (found) => {
    const code = found.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `[U+${code}]`;
  });
}
