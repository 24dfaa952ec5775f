import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import type { components } from "../../api/schema";
import { BigTable } from "../../components/BigTable";
import { Choice } from "../../components/Choice";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { placeHref, replaceQuery, usePlace } from "../../lib/router";
import { formatFigure, formatNanoseconds } from "./figures";
import { MissingNodes } from "./MissingNodes";
import { useTop } from "./read";

type Talker = components["schemas"]["Talker"];

function columns(of: string, range: string, t: Translate, locale: string): TableColumnsType<Talker> {
  const kind = of === "stores" ? "store" : "volume";
  return [
    {
      title: t(of === "stores" ? "performance.store" : "performance.volume"),
      width: 320,
      render: (_, { name }) =>
        name === "" ? (
          t("performance.rest")
        ) : (
          <a href={placeHref(["performance"], { object: `${kind}/${name}`, range })}>
            <Name text={name} />
          </a>
        ),
    },
    { title: "IOPS", width: 120, align: "right", render: (_, { iops }) => formatFigure(iops, "rate", locale) },
    {
      title: t("performance.bytes"),
      width: 140,
      align: "right",
      render: (_, { bytes_per_s }) => formatFigure(bytes_per_s, "bytes_per_s", locale),
    },
    {
      title: t("performance.mean"),
      width: 120,
      align: "right",
      render: (_, { mean_ns }) => formatNanoseconds(mean_ns),
    },
    { title: t("performance.p99"), width: 120, align: "right", render: (_, { p99_ns }) => formatNanoseconds(p99_ns) },
  ];
}

/** What was most active, and the rest of them together. */
export function TopTalkers({ seconds, range }: { seconds: number; range: string }) {
  const { t, locale } = useSpeech();
  const { query } = usePlace();
  const of = query.get("of") === "stores" ? "stores" : "volumes";
  const asked = query.get("by") ?? "";
  const by = asked === "bytes" || asked === "latency" ? asked : "iops";
  const { data, isLoading, error } = useTop(of, by, seconds);
  const rows = useMemo(() => {
    if (data === undefined) return [];
    return data.rest.ios > 0 ? [...data.rows, data.rest] : data.rows;
  }, [data]);
  const shown = useMemo(() => columns(of, range, t, locale), [of, range, t, locale]);
  return (
    <>
      <div className="screen-head">
        <Choice
          label={t("performance.top.of")}
          value={of}
          options={[
            ["volumes", t("performance.volumes")],
            ["stores", t("performance.stores")],
          ]}
          onChange={(of) => replaceQuery({ of })}
        />
        <Choice
          label={t("performance.top.by")}
          value={by}
          options={[
            ["iops", "IOPS"],
            ["bytes", t("performance.bytes")],
            ["latency", t("performance.latency")],
          ]}
          onChange={(by) => replaceQuery({ by })}
        />
      </div>
      <BigTable
        label={t("performance.top")}
        rows={rows}
        columns={shown}
        rowKey="name"
        isLoading={isLoading}
        error={error}
      />
      <MissingNodes missing={data?.missing ?? []} />
    </>
  );
}
