// What an action's dialog shows beside it: the command of `amita`, and the call by curl, that do the same.
import type { Call } from "../api/call";
import { escapeHidden, hasHidden } from "./visible";

const PLAIN = /^[A-Za-z0-9_./:@=,+%-]+$/;

/** A word as a shell reads it back; what nobody sees is written out, which bash and zsh know. */
export function shellQuote(word: string): string {
  if (hasHidden(word)) return `$'${escapeHidden(word.replace(/[\\']/g, "\\$&"))}'`;
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** `amita` with these words; undefined ones are left out. */
export function amitaCommand(...words: (string | undefined)[]): string {
  const said = words.filter((word): word is string => word !== undefined);
  return ["amita", ...said.map(shellQuote)].join(" ");
}

/** The call as curl does it, with these options. The token is not shown: curl takes it from the environment. */
export function curlCommand(call: Call, origin: string, byToken: boolean, options: readonly string[] = []): string {
  const lines = [`curl -X ${call.method.toUpperCase()} ${shellQuote(origin + call.address)}`];
  if (byToken) lines.push('-H "Authorization: Bearer $AMITA_TOKEN"');
  else lines.push("--cert operator.pem --key operator-key.pem");
  for (const [name, value] of Object.entries(call.headers)) lines.push(`-H ${shellQuote(`${name}: ${value}`)}`);
  // A word of a command is seen by everybody on the machine: what is secret is read from a file.
  if (call.isSecret) lines.push("-H 'Content-Type: application/json'", "--data @secrets.json");
  else if (call.body !== undefined) {
    lines.push("-H 'Content-Type: application/json'", `--data ${shellQuote(escapeHidden(JSON.stringify(call.body)))}`);
  }
  lines.push(...options);
  return lines.join(" \\\n  ");
}
