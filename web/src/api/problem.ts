// What the API says when it does not do what was asked (RFC 9457).

export class ProblemError extends Error {
  constructor(
    /** 0: there was no answer. */
    readonly status: number,
    /** Stable; see the specification. `unreachable` where no node answered, `no-problem` where a stranger did. */
    readonly code: string,
    readonly title: string,
    /** What is so, and what to do about it. */
    readonly detail: string,
  ) {
    super(`${code}: ${detail}`);
    this.name = "ProblemError";
  }
}

function text(from: object, field: string): string {
  const value = (from as Record<string, unknown>)[field];
  return typeof value === "string" ? value : "";
}

/** The problem in a body that came with this status. */
export function problemOf(status: number, body: unknown): ProblemError {
  if (typeof body === "object" && body !== null && text(body, "code") !== "") {
    return new ProblemError(status, text(body, "code"), text(body, "title"), text(body, "detail"));
  }
  return new ProblemError(status, "no-problem", `HTTP ${status}`, typeof body === "string" ? body.slice(0, 300) : "");
}

/**
 * Does the API say that it found the thing and cannot make sense of it? So it says of a record that is damaged; that one is away, is gone
 * or has become another are other codes.
 */
export function isUnreadable(error: unknown): boolean {
  return asProblem(error).code === "internal";
}

/** Whatever was thrown, as a problem. */
export function asProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new ProblemError(0, "unreachable", "", detail);
}
