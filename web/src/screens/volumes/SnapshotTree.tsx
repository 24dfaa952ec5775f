// A volume's snapshots in the order in which they were taken, and below each the volumes that were cloned from it.
import { Mark } from "../../components/Mark";
import { Empty, Spin } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { Labels } from "../../components/Labels";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatBytes, formatTime } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { CompareVolume } from "./CompareVolume";
import { CopyVolume } from "./CopyVolume";
import { ExportVolume, ImportVolume } from "./images";
import { RevertVolume } from "./RevertVolume";
import { CloneSnapshot, DeleteSnapshot, ProtectSnapshot, TakeSnapshot } from "./snapshots";
import { ParentLink } from "./VolumeFacts";
import type { Volume } from "./VolumeList";

export type Snapshot = components["schemas"]["Snapshot"];

/** The names of the volumes that were cloned from each snapshot of this volume. */
function clonesBySnapshot(volume: Volume, volumes: readonly Volume[]): ReadonlyMap<string, readonly string[]> {
  const clones = new Map<string, string[]>();
  for (const { name, parent } of volumes) {
    if (parent == null || !parent.startsWith(`${volume.name}@`)) continue;
    const snapshot = parent.slice(volume.name.length + 1);
    clones.set(snapshot, [...(clones.get(snapshot) ?? []), name]);
  }
  return clones;
}

function SnapshotActions({ volume, snapshot }: { volume: Volume; snapshot: Snapshot }) {
  const { t } = useSpeech();
  const given = { snapshot };
  const protection = snapshot.protected ? t("snapshot.unprotect") : t("snapshot.protect");
  return (
    <span className="row-actions">
      {snapshot.mark ? null : (
        <>
          <Act
            size="small"
            may="volume.clone"
            label={t("snapshot.clone")}
            dialog={(close) => <CloneSnapshot {...given} onClose={close} />}
          />
          <Act
            size="small"
            may="volume.copy"
            label={t("copy.copy")}
            dialog={(close) => <CopyVolume volume={volume} snapshot={snapshot.name} onClose={close} />}
          />
          <Act
            size="small"
            may="snapshot.protect"
            label={protection}
            dialog={(close) => <ProtectSnapshot {...given} onClose={close} />}
          />
          <Act
            size="small"
            may="volume.export-data"
            label={t("image.export")}
            dialog={(close) => <ExportVolume volume={volume} snapshot={snapshot} onClose={close} />}
          />
          <Act
            size="small"
            danger
            may="volume.revert"
            label={t("revert.verb")}
            dialog={(close) => <RevertVolume volume={volume} snapshot={snapshot} onClose={close} />}
          />
        </>
      )}
      <Act
        size="small"
        may="volume.export-data"
        label={t("diff.verb")}
        dialog={(close) => <CompareVolume {...given} onClose={close} />}
      />
      <Act
        size="small"
        danger
        may="snapshot.delete"
        label={t("snapshot.delete")}
        dialog={(close) => <DeleteSnapshot {...given} onClose={close} />}
      />
    </span>
  );
}

interface RowProps {
  readonly volume: Volume;
  readonly snapshot: Snapshot;
  readonly clones: readonly string[];
}

function SnapshotRow({ volume, snapshot, clones }: RowProps) {
  const { t, locale } = useSpeech();
  return (
    <li>
      <div className="tree-row">
        <strong>
          <Name text={snapshot.name === "" ? t("snapshot.nameless", { number: snapshot.number }) : snapshot.name} />
        </strong>
        <span className="faint">
          {formatTime(snapshot.taken_at * 1000, locale)} · {formatBytes(snapshot.size_bytes)}
        </span>
        {snapshot.protected ? <Mark tone="busy">{t("volume.protected")}</Mark> : null}
        {snapshot.mark ? <Mark>{t("snapshot.mark")}</Mark> : null}
        {snapshot.hidden ? <Mark>{t("snapshot.hidden")}</Mark> : null}
        <Labels labels={snapshot.labels} />
        {snapshot.hidden ? null : <SnapshotActions volume={volume} snapshot={snapshot} />}
      </div>
      {clones.length === 0 ? null : (
        <ul>
          {clones.map((name) => (
            <li key={name} className="tree-row">
              {t("snapshot.clone_of")}
              <a href={placeHref(["volumes", name], { tab: "snapshots" })}>
                <Name text={name} />
              </a>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

export function SnapshotTree({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const snapshots = useList("/api/v1/volumes/{name}/snapshots", { name: volume.name });
  const volumes = useList("/api/v1/volumes");
  const clones = useMemo(() => clonesBySnapshot(volume, volumes.items), [volume, volumes.items]);
  return (
    <section className="card tree">
      {snapshots.error === null ? null : <Problem error={snapshots.error} />}
      {volume.parent == null ? null : (
        <p>
          {t("volume.parent")}: <ParentLink parent={volume.parent} />
        </p>
      )}
      <div className="tree-row">
        <strong>
          <Name text={volume.name} />
        </strong>
        <Act
          size="small"
          type="primary"
          may="snapshot.create"
          label={t("snapshot.take")}
          dialog={(close) => <TakeSnapshot volume={volume} onClose={close} />}
        />
        <Act
          size="small"
          may="volume.export-data"
          label={t("image.export")}
          dialog={(close) => <ExportVolume volume={volume} onClose={close} />}
        />
        <Act
          size="small"
          danger
          may="volume.import"
          label={t("image.import")}
          dialog={(close) => <ImportVolume volume={volume} onClose={close} />}
        />
      </div>
      {snapshots.isLoading ? <Spin aria-label={t("frame.loading")} /> : null}
      {!snapshots.isLoading && snapshots.items.length === 0 ? <Empty description={t("snapshot.none")} /> : null}
      {snapshots.items.length === 0 ? null : (
        <ul>
          {snapshots.items.map((snapshot) => (
            <SnapshotRow
              key={snapshot.number}
              volume={volume}
              snapshot={snapshot}
              clones={clones.get(snapshot.name) ?? []}
            />
          ))}
        </ul>
      )}
    </section>
  );
}
