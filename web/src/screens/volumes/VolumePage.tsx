import { Spin, Tabs } from "antd";
import { useThing } from "../../api/queries";
import { Act } from "../../components/Act";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { placeHref, replaceQuery, usePlace } from "../../lib/router";
import { AttachTab } from "./AttachTab";
import { GrowVolume, LabelVolume, ProtectVolume, RenameVolume } from "./changes";
import { CopyVolume } from "./CopyVolume";
import { DeleteVolume } from "./DeleteVolume";
import { LimitsTab } from "./LimitsTab";
import { MigrateVolume } from "./MigrateVolume";
import { SnapshotTree } from "./SnapshotTree";
import { VolumeFacts } from "./VolumeFacts";
import type { Volume } from "./VolumeList";
import { WorkTab } from "./WorkTab";

function Actions({ volume, etag }: { volume: Volume; etag: string | undefined }) {
  const { t } = useSpeech();
  const given = { volume, etag };
  const protection = volume.protected ? t("volume.unprotect") : t("volume.protect");
  return (
    <>
      <Act may="volume.resize" label={t("volume.grow")} dialog={(close) => <GrowVolume {...given} onClose={close} />} />
      <Act
        may="volume.copy"
        label={t("copy.copy")}
        dialog={(close) => <CopyVolume volume={volume} onClose={close} />}
      />
      <Act
        may="volume.migrate"
        label={t("migrate.migrate")}
        dialog={(close) => <MigrateVolume volume={volume} onClose={close} />}
      />
      <Act
        may="volume.rename"
        label={t("volume.rename")}
        dialog={(close) => <RenameVolume volume={volume} onClose={close} />}
      />
      <Act
        may="volume.label"
        label={t("volume.label")}
        dialog={(close) => <LabelVolume {...given} onClose={close} />}
      />
      <Act may="volume.protect" label={protection} dialog={(close) => <ProtectVolume {...given} onClose={close} />} />
      <Act
        may="volume.delete"
        label={t("volume.delete")}
        danger
        dialog={(close) => <DeleteVolume {...given} onClose={close} />}
      />
    </>
  );
}

export function VolumePage({ name }: { name: string }) {
  const { t } = useSpeech();
  const tab = usePlace().query.get("tab") ?? "facts";
  const { data, error } = useThing("/api/v1/volumes/{name}", { name });
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["volumes"])}>{t("screen.volumes")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {data === undefined ? null : <Actions volume={data.data} etag={data.etag} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : (
        <Tabs
          activeKey={tab}
          destroyOnHidden
          onChange={(tab) => replaceQuery({ tab })}
          items={[
            { key: "facts", label: t("volume.facts"), children: <VolumeFacts volume={data.data} /> },
            { key: "snapshots", label: t("volume.snapshots"), children: <SnapshotTree volume={data.data} /> },
            { key: "attach", label: t("volume.attach"), children: <AttachTab volume={data.data} /> },
            { key: "limits", label: t("limit.limits"), children: <LimitsTab volume={data.data} /> },
            { key: "work", label: t("volume.works"), children: <WorkTab volume={data.data} /> },
          ]}
        />
      )}
    </>
  );
}
