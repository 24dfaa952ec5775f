import { Tabs } from "antd";
import { Choice } from "../../components/Choice";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { ChartBox } from "./ChartBox";
import { CHARTS, RANGES } from "./charts";
import { HeatMap } from "./HeatMap";
import { kindOf, ObjectChoice } from "./ObjectChoice";
import "./performance.css";
import { SingleIos } from "./SingleIos";
import { TopTalkers } from "./TopTalkers";

/** Is it said of which one? */
function isWhole(object: string): boolean {
  return (
    object === "cluster" ||
    object
      .split("/")
      .slice(1)
      .some((part) => part !== "")
  );
}

/** `#/performance?object=volume/db&range=1d&tab=heat`. */
export default function Performance() {
  const { t } = useSpeech();
  const { query } = usePlace();
  const object = query.get("object") ?? "cluster";
  const range = RANGES.find(({ id }) => id === query.get("range")) ?? RANGES[0]!;
  const kind = kindOf(object);
  const tab = query.get("tab") ?? "charts";
  const whole = isWhole(object);
  const choose = <p className="faint chart-none">{t("performance.choose")}</p>;
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.performance")}</h1>
        <span className="space" />
        <ObjectChoice object={object} onChange={(object) => replaceQuery({ object })} />
        <Choice
          label={t("performance.range")}
          value={range.id}
          options={RANGES.map(({ id, word }) => [id, t(word)] as const)}
          onChange={(range) => replaceQuery({ range })}
        />
      </div>
      <Tabs
        activeKey={tab}
        destroyOnHidden
        onChange={(tab) => replaceQuery({ tab })}
        items={[
          {
            key: "charts",
            label: t("performance.charts"),
            children: whole ? (
              <div className="charts">
                {CHARTS[kind].map((chart) => (
                  <ChartBox key={`${object} ${chart.id}`} chart={chart} object={object} seconds={range.seconds} />
                ))}
              </div>
            ) : (
              choose
            ),
          },
          {
            key: "heat",
            label: t("performance.heat"),
            children: whole && kind !== "core" ? <HeatMap object={object} seconds={range.seconds} /> : choose,
          },
          {
            key: "top",
            label: t("performance.top"),
            children: <TopTalkers seconds={range.seconds} range={range.id} />,
          },
          { key: "ios", label: t("performance.ios"), children: <SingleIos object={object} /> },
        ]}
      />
    </>
  );
}
