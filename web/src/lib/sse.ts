// Server-sent events (WHATWG HTML, section 9.2.6), read from the body of a fetch: EventSource cannot send a token.

export interface Message {
  /** The last id that was said, in this message or before. */
  readonly id: string;
  readonly data: string;
}

/** Cuts a stream into messages. Pieces may end anywhere, also between CR and LF. */
export class MessageReader {
  private rest = "";
  private data: string[] = [];
  private id: string;

  constructor(lastId = "") {
    this.id = lastId;
  }

  /** The messages that are whole with this piece. */
  push(piece: string): Message[] {
    const text = this.rest + piece;
    // A CR at the end may be the first half of a CR LF.
    const end = text.endsWith("\r") ? text.length - 1 : text.length;
    const lines = text.slice(0, end).split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + text.slice(end);
    return lines.map((line) => this.line(line)).filter((message) => message !== undefined);
  }

  private line(line: string): Message | undefined {
    if (line === "") return this.dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "id" && !value.includes("\0")) this.id = value;
    return undefined;
  }

  private dispatch(): Message | undefined {
    if (this.data.length === 0) return undefined;
    const message = { id: this.id, data: this.data.join("\n") };
    this.data = [];
    return message;
  }
}
