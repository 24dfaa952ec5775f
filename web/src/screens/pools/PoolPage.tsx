import { Spin, Tabs } from "antd";
import { useThing } from "../../api/queries";
import type { Result } from "../../api/call";
import { Act } from "../../components/Act";
import { LimitsCard } from "../../components/Limits";
import { Meter } from "../../components/Meter";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatBytes, formatCount, formatDuration } from "../../lib/format";
import { placeHref, replaceQuery, usePlace } from "../../lib/router";
import { KeepDeleted, SetQuota } from "./actions";
import { GroupList } from "./GroupList";
import { copies, GroupStates, PoolSpace } from "./parts";
import { DeletePool, SetRule } from "./rule";

type Details = Result<"get", "/api/v1/pools/{name}">;

/** How much is asked for, of how much may be. */
function Limit({
  asked,
  limit,
  write,
}: {
  asked: number;
  limit: number | null | undefined;
  write: (value: number) => string;
}) {
  const { t } = useSpeech();
  if (limit == null) return t("pool.quota.none", { asked: write(asked) });
  return (
    <>
      {t("store.used_of", { used: write(asked), all: write(limit) })}
      <Meter label={t("pool.quota")} part={asked} whole={limit} />
    </>
  );
}

function Facts({ pool }: { pool: Details }) {
  const { t, locale } = useSpeech();
  const count = (value: number) => formatCount(value, locale);
  const { asked, quota } = pool;
  return (
    <section className="card">
      <Pairs
        pairs={[
          [t("volume.id"), pool.id],
          [t("pool.copies"), copies(pool, t)],
          [t("pool.level"), pool.level],
          [t("store.class"), pool.class == null ? t("pool.class.any") : <Name text={pool.class} />],
          [t("pool.chunk"), formatBytes(pool.chunk_bytes)],
          [t("pool.groups"), <GroupStates counts={pool.group_counts} />],
          [t("pool.outlook"), pool.outlook.sentences.join(" ")],
          [t("pool.raw"), <PoolSpace pool={pool} />],
          [t("pool.fullest"), pool.fullest_percent == null ? t("unknown") : `${pool.fullest_percent} %`],
          [
            t("pool.recycle"),
            pool.recycle_seconds === 0 ? t("pool.recycle.none") : formatDuration(pool.recycle_seconds),
          ],
          [
            t("pool.provisioned"),
            <Limit asked={asked.provisioned_bytes} limit={quota.provisioned_bytes} write={formatBytes} />,
          ],
          [t("screen.volumes"), <Limit asked={asked.volumes} limit={quota.volumes} write={count} />],
          [t("volume.snapshots"), <Limit asked={asked.snapshots} limit={quota.snapshots} write={count} />],
        ]}
      />
      <p>
        <a href={placeHref(["volumes"], { q: pool.name })}>{t("pool.volumes")}</a>
      </p>
    </section>
  );
}

function Actions({ pool, etag }: { pool: Details; etag: string | undefined }) {
  const { t } = useSpeech();
  const given = { pool, etag };
  return (
    <>
      <Act may="pool.set" label={t("pool.rule")} dialog={(close) => <SetRule {...given} onClose={close} />} />
      <Act
        may="pool.recycle"
        label={t("pool.recycle.set")}
        dialog={(close) => <KeepDeleted {...given} onClose={close} />}
      />
      <Act may="pool.quota" label={t("pool.quota.set")} dialog={(close) => <SetQuota {...given} onClose={close} />} />
      <Act
        danger
        may="pool.delete"
        label={t("pool.delete")}
        dialog={(close) => <DeletePool {...given} onClose={close} />}
      />
    </>
  );
}

export function PoolPage({ name }: { name: string }) {
  const { t } = useSpeech();
  const tab = usePlace().query.get("tab") ?? "facts";
  const { data, error } = useThing("/api/v1/pools/{name}", { name });
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["pools"])}>{t("screen.pools")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {data === undefined ? null : <Actions pool={data.data} etag={data.etag} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : (
        <Tabs
          activeKey={tab}
          destroyOnHidden
          onChange={(tab) => replaceQuery({ tab, q: undefined })}
          items={[
            { key: "facts", label: t("volume.facts"), children: <Facts pool={data.data} /> },
            { key: "groups", label: t("pool.groups"), children: <GroupList pool={name} /> },
            {
              key: "limits",
              label: t("limit.limits"),
              children: <LimitsCard whose={{ kind: "pool", name }} title={t("limit.title.pool", { name })} />,
            },
          ]}
        />
      )}
    </>
  );
}
