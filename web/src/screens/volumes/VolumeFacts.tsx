import { Labels } from "../../components/Labels";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatBytes, formatCount, formatTime } from "../../lib/format";
import { placeHref } from "../../lib/router";
import type { Volume } from "./VolumeList";

/** `VOLUME@SNAPSHOT`, as a link to the volume. */
export function ParentLink({ parent }: { parent: string }) {
  const volume = parent.slice(0, parent.lastIndexOf("@"));
  return (
    <a href={placeHref(["volumes", volume], { tab: "snapshots" })}>
      <Name text={parent} />
    </a>
  );
}

/** What is being done to it. */
function work(volume: Volume, t: Translate): string {
  const { flattening, importing, shrinking_to_bytes: shrinkingTo } = volume;
  const doing = [
    importing ? t("volume.work.importing") : "",
    flattening ? t("volume.work.flattening") : "",
    shrinkingTo == null ? "" : t("volume.work.shrinking", { size: formatBytes(shrinkingTo) }),
  ].filter((what) => what !== "");
  return doing.length === 0 ? t("none") : doing.join(", ");
}

/** Whether it is encrypted, and why it cannot be opened for want of its keys. */
function Encryption({ volume: { encrypted, locked } }: { volume: Volume }) {
  const { t } = useSpeech();
  if (locked == null) return <>{encrypted ? t("yes") : t("no")}</>;
  return (
    <>
      <Mark tone="bad">{t("volume.locked")}</Mark> <Name text={locked} whole />
    </>
  );
}

export function VolumeFacts({ volume }: { volume: Volume }) {
  const { t, locale } = useSpeech();
  const { pool, owner, parent, created_at } = volume;
  return (
    <section className="card">
      <Pairs
        pairs={[
          [t("volume.id"), volume.id],
          [t("volume.pool"), <a href={placeHref(["pools", pool])}>{<Name text={pool} />}</a>],
          [t("volume.size"), `${formatBytes(volume.size_bytes)} (${formatCount(volume.size_bytes, locale)} B)`],
          [t("volume.owner"), owner == null ? t("volume.unused") : <Name text={owner} />],
          [t("volume.protected"), volume.protected ? t("yes") : t("no")],
          [t("volume.exported"), volume.exported ? t("yes") : t("no")],
          [t("volume.encrypted"), <Encryption volume={volume} />],
          [t("volume.work"), work(volume, t)],
          [t("volume.parent"), parent == null ? t("none") : <ParentLink parent={parent} />],
          [t("volume.clones"), volume.clones],
          [t("volume.created"), created_at == null ? t("unknown") : formatTime(created_at * 1000, locale)],
          [t("volume.labels"), Object.keys(volume.labels).length === 0 ? t("none") : <Labels labels={volume.labels} />],
        ]}
      />
    </section>
  );
}
