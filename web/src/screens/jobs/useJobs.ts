import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { List } from "../../api/queries";
import type { Translate, Word } from "../../i18n";
import { formatBytes, formatDuration } from "../../lib/format";
import { jobRows } from "../../lib/jobs";
import type { JobKind, JobRow } from "../../lib/jobs";
import { wordOf } from "../../lib/known";

const JOB_WORDS: Readonly<Record<JobKind, Word>> = {
  copy: "job.copy",
  drain: "job.drain",
  flatten: "job.flatten",
  groups: "job.groups",
  import: "job.import",
  migrate: "job.migrate",
  move: "job.move",
  policy: "job.policy",
  recovery: "job.recovery",
  rekey: "job.rekey",
  scrub: "job.scrub",
  shrink: "job.shrink",
};

/** What kind of a job it is. */
export function jobText(kind: JobKind, t: Translate): string {
  return wordOf(JOB_WORDS, kind, t);
}

/** How long it takes yet, if it goes on as so far, and how fast it goes. */
export function timeLeft({ leftSeconds, bytesPerSecond }: JobRow, t: Translate): string {
  const rate = bytesPerSecond === undefined ? "" : t("recovery.limit.bytes", { size: formatBytes(bytesPerSecond) });
  return [leftSeconds === undefined ? "" : formatDuration(leftSeconds), rate].filter((part) => part !== "").join(", ");
}

/** All that is under way. */
export function useJobs(): List<JobRow> {
  const jobs = useList("/api/v1/jobs");
  const stores = useList("/api/v1/stores");
  const pools = useList("/api/v1/pools");
  const policies = useList("/api/v1/snapshot-policies");
  const items = useMemo(
    () => jobRows({ jobs: jobs.items, stores: stores.items, pools: pools.items, policies: policies.items }),
    [jobs.items, stores.items, pools.items, policies.items],
  );
  const lists = [jobs, stores, pools, policies];
  return {
    items,
    isLoading: lists.some(({ isLoading }) => isLoading),
    error: lists.find(({ error }) => error !== null)?.error ?? null,
  };
}
