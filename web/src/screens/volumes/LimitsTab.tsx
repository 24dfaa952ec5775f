// What a volume's hosts may do: by its own limits, and with the others of its tenant and its pool.
import { Spin } from "antd";
import { call } from "../../api/call";
import { useThing } from "../../api/queries";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { TextField } from "../../components/inputs";
import { LimitsCard } from "../../components/Limits";
import type { Used } from "../../components/Limits";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { limitsSet, meanOf, USED } from "../../lib/limits";
import { useFigures } from "../performance/read";
import type { Volume } from "./VolumeList";

/** What is used is the average of so many seconds. */
const SPAN_S = 60;

/** Figures are asked for of those limits alone that hold. */
function useUsed(name: string): Used {
  const { data } = useThing("/api/v1/volumes/{name}/limits", { name });
  const set = data === undefined ? [] : limitsSet(data.data);
  const { answers } = useFigures(
    `volume/${name}`,
    set.map((option) => USED[option]),
    SPAN_S,
  );
  return (option) => meanOf(answers.get(USED[option])?.points ?? []);
}

function VolumeLimits({ volume: { name } }: { volume: Volume }) {
  const { t } = useSpeech();
  const used = useUsed(name);
  return <LimitsCard whose={{ kind: "volume", name }} title={t("limit.limits")} used={used} />;
}

interface Owned {
  readonly name: string;
  readonly tenant: string;
  readonly onClose: () => void;
}

function SetTenant({ name, tenant: before, onClose }: Owned) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("tenant.set.title", { name })}
      verb={t("tenant.set")}
      about={t("tenant.set.about")}
      initial={{ tenant: before }}
      fields={<TextField name="tenant" label={t("tenant.name")} isNeeded autoFocus />}
      plan={({ tenant }) => ({
        call: call("put", "/api/v1/volumes/{name}/tenant", {
          params: { path: { name } },
          body: { tenant: tenant.trim() },
        }),
        command: amitaCommand("tenant", "add", tenant.trim(), name),
      })}
      onClose={onClose}
    />
  );
}

function ClearTenant({ name, tenant, onClose }: Owned) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("tenant.clear.title", { name })}
      verb={t("tenant.clear")}
      about={t("tenant.clear.about", { tenant })}
      initial={{}}
      danger
      plan={() => ({
        call: call("delete", "/api/v1/volumes/{name}/tenant", { params: { path: { name } } }),
        command: amitaCommand("tenant", "remove", name),
      })}
      onClose={onClose}
    />
  );
}

function Tenant({ volume: { name } }: { volume: Volume }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/volumes/{name}/tenant", { name });
  const tenant = data?.data.tenant ?? "";
  return (
    <>
      <section className="card">
        <div className="screen-head">
          <h2>{t("tenant.tenant")}</h2>
          {data === undefined ? null : <Name text={tenant === "" ? t("tenant.nobody") : tenant} />}
          <span className="space" />
          {data === undefined ? null : (
            <Act
              may="tenant.volume"
              label={t("tenant.set")}
              dialog={(close) => <SetTenant name={name} tenant={tenant} onClose={close} />}
            />
          )}
          {tenant === "" ? null : (
            <Act
              danger
              may="tenant.volume"
              label={t("tenant.clear")}
              dialog={(close) => <ClearTenant name={name} tenant={tenant} onClose={close} />}
            />
          )}
        </div>
        {error === null ? null : <Problem error={error} />}
        {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
        <p className="faint">{t("tenant.about")}</p>
      </section>
      {tenant === "" ? null : (
        <LimitsCard
          key={tenant}
          whose={{ kind: "tenant", name: tenant }}
          title={t("limit.title.tenant", { name: tenant })}
        />
      )}
    </>
  );
}

export function LimitsTab({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { pool } = volume;
  return (
    <>
      <VolumeLimits volume={volume} />
      <Tenant volume={volume} />
      <LimitsCard key={pool} whose={{ kind: "pool", name: pool }} title={t("limit.title.pool", { name: pool })} />
    </>
  );
}
