import type { components } from "../../api/schema";
import type { Word } from "../../i18n";
import type { RecoveryLevel } from "../../lib/recovery";

export const LEVEL_WORDS: Readonly<Record<RecoveryLevel, Word>> = {
  critical: "recovery.critical",
  degraded: "recovery.degraded",
  rebalance: "recovery.rebalance",
  scrub: "recovery.scrub",
};

export const LEVEL_HELP: Readonly<Record<RecoveryLevel, Word>> = {
  critical: "recovery.critical.help",
  degraded: "recovery.degraded.help",
  rebalance: "recovery.rebalance.help",
  scrub: "recovery.scrub.help",
};

export const SLOW_WORDS: Readonly<Record<components["schemas"]["SlowPolicy"], Word>> = {
  off: "recovery.slow.off",
  propose: "recovery.slow.propose",
  evict: "recovery.slow.evict",
};

export const SICK_WORDS: Readonly<Record<components["schemas"]["SickPolicy"], Word>> = {
  off: "recovery.sick.off",
  propose: "recovery.sick.propose",
  avoid: "recovery.sick.avoid",
  isolate: "recovery.sick.isolate",
};

export const DISK_WORDS: Readonly<Record<components["schemas"]["SickDisks"], Word>> = {
  off: "recovery.disks.off",
  propose: "recovery.disks.propose",
  drain: "recovery.disks.drain",
};
