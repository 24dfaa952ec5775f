// The audit log as it is looked at: what changes something is recorded when it begins and when it has ended.
import type { components } from "../api/schema";

export type AuditRecord = components["schemas"]["AuditRecord"];

export interface AuditRow extends AuditRecord {
  /** How long it took, where both its records are known. */
  readonly took_ms: number | undefined;
}

/** The newest first; of what has ended, the record of its end stands for both. */
export function foldAudit(records: readonly AuditRecord[]): AuditRow[] {
  const byNumber = new Map(records.map((record) => [record.number, record]));
  const ended = new Set(records.map(({ begun_by }) => begun_by).filter((number) => number != null));
  const left = [...byNumber.values()].filter(({ number }) => !ended.has(number));
  const rows = left.map((record) => {
    const began = record.begun_by == null ? undefined : byNumber.get(record.begun_by);
    return { ...record, took_ms: began === undefined ? undefined : Math.max(0, record.at_ms - began.at_ms) };
  });
  return rows.sort((a, b) => b.number - a.number);
}
