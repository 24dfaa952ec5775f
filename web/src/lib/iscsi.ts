// iSCSI: names, what of a target or of what an initiator proves is to be another, as a body and as a command, and what
// `amita volume attach --iscsi` does by itself.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";

type Schemas = components["schemas"];
type Target = Schemas["IscsiTarget"];
type Lun = Schemas["Lun"];
type Initiator = Schemas["Initiator"];

/** The form of RFC 7143, 4.2.7; the API knows more of it, and says so. */
const ISCSI_NAME = /^(iqn\.\d{4}-\d{2}\.[a-z0-9.:-]+|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32}))$/;
/** The highest number of a LUN. */
export const MAX_LUN = 16_383;

/** The form in which names are kept: capitals stand for small letters (RFC 3722). */
export function iscsiName(text: string): string {
  return text.trim().toLowerCase();
}

export function isIscsiName(text: string): boolean {
  return ISCSI_NAME.test(iscsiName(text));
}

/** A number of a LUN, or nothing. */
export function isLunNumber(text: string): boolean {
  return text === "" || (/^\d{1,5}$/.test(text) && Number(text) <= MAX_LUN);
}

/** Bytes of a logical block where nobody says it: an encrypted volume reads around each write that is not of whole blocks. */
export function usualBlock(volume: { readonly encrypted: boolean } | undefined): string {
  return volume?.encrypted === true ? "4096" : "512";
}

/** At how many percent space is said to run out, or nothing. */
export function isPercent(text: string): boolean {
  return text === "" || (/^\d{1,3}$/.test(text) && Number(text) >= 3 && Number(text) <= 100);
}

/** The volume, or VOLUME@SNAPSHOT, that a LUN is; undefined: it was deleted. */
export function lunObject({ volume, snapshot, read_only }: Lun): string | undefined {
  if (volume == null || (read_only && snapshot == null)) return undefined;
  return snapshot == null ? volume : `${volume}@${snapshot}`;
}

/** The number that the next LUN gets: the one after the highest; where there is none, the lowest that is free. */
export function nextLun(numbers: readonly number[]): number {
  const next = Math.max(-1, ...numbers) + 1;
  if (next <= MAX_LUN) return next;
  const taken = new Set(numbers);
  let free = 0;
  while (taken.has(free)) free += 1;
  return free;
}

/** What an initiator is to see so that it sees this LUN beside what it sees already; null: all. */
export function maskWith(target: Target | undefined, initiator: string, lun: number): number[] | null {
  const access = target?.initiators.find((one) => one.initiator === initiator);
  if (access === undefined) return target?.any_initiator ? null : [lun];
  if (access.luns == null) return null;
  return [...new Set([...access.luns, lun])].sort((a, b) => a - b);
}

export interface Doors extends Pick<Target, "gateways" | "any_initiator" | "chap_required" | "initiators_move"> {
  /** Percent, as typed; empty: where stores count as near full. */
  readonly warning: string;
}

interface Changed<B> {
  readonly body: B;
  /** None where nothing is to be another. */
  readonly command: string | undefined;
}

/** What makes the target of this name, which is as `from`, into one that is as `to`. */
export function targetChange(name: string, from: Doors, to: Doors): Changed<Schemas["IscsiTargetChange"]> {
  const { gateways, any_initiator, chap_required, initiators_move, warning } = to;
  const isSame = from.gateways.length === gateways.length && gateways.every((node) => from.gateways.includes(node));
  const body: Schemas["IscsiTargetChange"] = {};
  const words: string[] = [];
  if (!isSame) {
    body.gateways = gateways;
    words.push(...(gateways.length === 0 ? ["--all-gateways"] : gateways.flatMap((node) => ["--gateway", node])));
  }
  if (from.any_initiator !== any_initiator) {
    body.any_initiator = any_initiator;
    words.push(any_initiator ? "--any-initiator" : "--listed-initiators");
  }
  if (from.chap_required !== chap_required) {
    body.chap_required = chap_required;
    words.push(chap_required ? "--require-chap" : "--allow-plain");
  }
  if (from.initiators_move !== initiators_move) {
    body.initiators_move = initiators_move;
    words.push(initiators_move ? "--initiators-move" : "--operators-move");
  }
  if (from.warning !== warning) {
    body.space_warning_percent = warning === "" ? null : Number(warning);
    words.push(...(warning === "" ? ["--usual-space-warning"] : ["--space-warning", warning]));
  }
  return { body, command: words.length === 0 ? undefined : amitaCommand("target", "set", name, ...words) };
}

/** What becomes of the secrets of an initiator: both are made, its own alone, they stay, they go. */
export type SecretsChoice = "both" | "one" | "keep" | "remove";

export interface ProofsWanted {
  readonly secrets: SecretsChoice;
  /** The name that it gives; empty: its own. */
  readonly user: string;
  /** The name that targets give it; empty: each its own. */
  readonly targetUser: string;
}

export interface Secrets {
  readonly chap: string;
  readonly chap_target: string;
}

/** What an initiator has to prove so far, as the dialog has it. */
export function proofsOf({ name, chap, chap_user, chap_target_user }: Initiator): ProofsWanted {
  const user = chap_user === name ? "" : chap_user;
  return { secrets: chap ? "keep" : "both", user, targetUser: chap_target_user ?? "" };
}

/** What makes an initiator prove what is wanted; `made`: the secrets that are to be, where they are made. */
export function proofsChange(
  known: Initiator,
  wanted: ProofsWanted,
  made: Secrets,
): Changed<Schemas["InitiatorKeysChange"]> {
  const from = proofsOf(known);
  const user = wanted.user.trim() === known.name ? "" : wanted.user.trim();
  const targetUser = wanted.targetUser.trim();
  const body: Schemas["InitiatorKeysChange"] = {};
  const words: string[] = [];
  if (wanted.secrets === "both") {
    Object.assign(body, made);
    words.push("--generate-chap");
  }
  if (wanted.secrets === "one") {
    body.chap = made.chap;
    words.push("--generate-chap", known.chap_target ? "--remove-chap-target" : "--one-way");
  }
  if (wanted.secrets === "remove" && known.chap) {
    body.chap = null;
    words.push("--remove-chap");
  }
  const isAlone = wanted.secrets === "one" || wanted.secrets === "remove";
  if (isAlone && known.chap_target) {
    body.chap_target = null;
    if (wanted.secrets === "remove") words.push("--remove-chap-target");
  }
  if (user !== from.user) {
    body.chap_user = user === "" ? null : user;
    words.push(...(user === "" ? ["--own-chap-user"] : ["--chap-user", user]));
  }
  if (targetUser !== from.targetUser) {
    body.chap_target_user = targetUser === "" ? null : targetUser;
    words.push(...(targetUser === "" ? ["--own-chap-target-user"] : ["--chap-target-user", targetUser]));
  }
  return { body, command: words.length === 0 ? undefined : amitaCommand("initiator", "key", known.name, ...words) };
}

/** Each is 6 bits: 96 in all, in as many characters as Windows takes. */
const SECRET_CHARACTERS = 16;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";

/** A secret for CHAP as `amita initiator key --generate-chap` makes them. */
export function makeSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_CHARACTERS));
  return Array.from(bytes, (byte) => ALPHABET[byte % ALPHABET.length]).join("");
}

export type System = "linux" | "esxi" | "windows";

/** What makes names of this form by itself; Linux where nobody knows. */
export function systemOf(initiator: string): System {
  if (initiator.startsWith("iqn.1998-01.com.vmware:")) return "esxi";
  return initiator.startsWith("iqn.1991-05.com.microsoft:") ? "windows" : "linux";
}

/** Does the node serve this target? */
export function isGateway({ gateways }: Pick<Target, "gateways">, node: string): boolean {
  return gateways.length === 0 || gateways.includes(node);
}
