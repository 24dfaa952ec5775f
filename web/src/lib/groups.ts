// The groups of a pool: who holds each, and how that is.
import type { components } from "../api/schema";

type Group = components["schemas"]["Group"];

export type GroupState = "whole" | "syncing" | "lacking";

interface Store {
  readonly id: string;
  readonly node: string;
  readonly path: string;
  readonly serves: boolean;
}

export interface Holder {
  readonly id: string;
  /** Its node and its path; the beginning of its number where nobody knows it. */
  readonly text: string;
  readonly isMember: boolean;
  readonly isInSync: boolean;
  readonly isSyncing: boolean;
  readonly serves: boolean;
}

export interface GroupRow {
  readonly index: number;
  readonly epoch: number;
  readonly state: GroupState;
  readonly holders: readonly Holder[];
}

/** A member that is gone, or that nobody brings up to date, is a copy that lacks. */
function stateOf(holders: readonly Holder[]): GroupState {
  const members = holders.filter(({ isMember }) => isMember);
  if (members.some(({ isInSync, isSyncing, serves }) => !serves || (!isInSync && !isSyncing))) return "lacking";
  return holders.some(({ isSyncing }) => isSyncing) ? "syncing" : "whole";
}

export function groupRows(groups: readonly Group[], stores: readonly Store[]): GroupRow[] {
  const known = new Map(stores.map((store) => [store.id, store]));
  return groups.map(({ index, epoch, members, in_sync, syncing }) => {
    const holders = [...new Set([...members, ...in_sync, ...syncing])].map((id): Holder => {
      const store = known.get(id);
      return {
        id,
        text: store === undefined ? id.slice(0, 8) : `${store.node} ${store.path}`,
        isMember: members.includes(id),
        isInSync: in_sync.includes(id),
        isSyncing: syncing.includes(id),
        serves: store?.serves ?? false,
      };
    });
    return { index, epoch, state: stateOf(holders), holders };
  });
}
