// The screens: each is a chunk of its own, and is loaded when it is looked at first.
import { lazy } from "react";
import type { ComponentType } from "react";
import type { Word } from "../i18n";

export interface Screen {
  /** The first part of its address. */
  readonly id: string;
  readonly title: Word;
  /** `g` and this key go there. */
  readonly key: string;
  readonly View: ComponentType;
}

export const SCREENS: readonly Screen[] = [
  { id: "overview", title: "screen.overview", key: "o", View: lazy(() => import("../screens/overview/Overview")) },
  { id: "topology", title: "screen.topology", key: "t", View: lazy(() => import("../screens/topology/Topology")) },
  { id: "pools", title: "screen.pools", key: "p", View: lazy(() => import("../screens/pools/Pools")) },
  { id: "volumes", title: "screen.volumes", key: "v", View: lazy(() => import("../screens/volumes/Volumes")) },
  { id: "trash", title: "screen.trash", key: "d", View: lazy(() => import("../screens/trash/Trash")) },
  { id: "nodes", title: "screen.nodes", key: "n", View: lazy(() => import("../screens/nodes/Nodes")) },
  { id: "events", title: "screen.events", key: "e", View: lazy(() => import("../screens/events/Events")) },
];
