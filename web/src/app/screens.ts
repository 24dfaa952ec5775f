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
  { id: "hosts", title: "screen.hosts", key: "h", View: lazy(() => import("../screens/hosts/Hosts")) },
  { id: "schedules", title: "screen.schedules", key: "s", View: lazy(() => import("../screens/schedules/Schedules")) },
  { id: "backups", title: "screen.backups", key: "b", View: lazy(() => import("../screens/backups/Backups")) },
  { id: "mirrors", title: "screen.mirrors", key: "m", View: lazy(() => import("../screens/mirrors/Mirrors")) },
  { id: "alerts", title: "screen.alerts", key: "l", View: lazy(() => import("../screens/alerts/Alerts")) },
  {
    id: "inspection",
    title: "screen.inspection",
    key: "x",
    View: lazy(() => import("../screens/inspection/Inspection")),
  },
  { id: "jobs", title: "screen.jobs", key: "j", View: lazy(() => import("../screens/jobs/Jobs")) },
  {
    id: "performance",
    title: "screen.performance",
    key: "f",
    View: lazy(() => import("../screens/performance/Performance")),
  },
  { id: "events", title: "screen.events", key: "e", View: lazy(() => import("../screens/events/Events")) },
  { id: "settings", title: "screen.settings", key: "c", View: lazy(() => import("../screens/settings/Settings")) },
  { id: "tokens", title: "screen.tokens", key: "k", View: lazy(() => import("../screens/tokens/Tokens")) },
  {
    id: "certificates",
    title: "screen.certificates",
    key: "i",
    View: lazy(() => import("../screens/certificates/Certificates")),
  },
  { id: "audit", title: "screen.audit", key: "a", View: lazy(() => import("../screens/audit/Audit")) },
];
