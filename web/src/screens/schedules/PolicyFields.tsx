import { Form } from "antd";
import { useList } from "../../api/queries";
import { NameField } from "../../components/fields";
import { CheckField, NamesField, NumberField, OptionField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { readLabel, RULES, TARGETS } from "../../lib/policies";
import type { TargetKind } from "../../lib/policies";
import { RULE_WORDS } from "./parts";

const MOST = 65_535;

/** Which volumes a policy is for. */
export function TargetFields({ targets = TARGETS }: { targets?: readonly TargetKind[] }) {
  const { t } = useSpeech();
  const kind = Form.useWatch("target") as string | undefined;
  const volumes = useList("/api/v1/volumes");
  const pools = useList("/api/v1/pools");
  const words = { volumes: "policy.by.volumes", label: "policy.by.label", pool: "policy.by.pool" } as const;
  return (
    <>
      <OptionField
        name="target"
        label={t("policy.target")}
        options={targets.map((target) => [target, t(words[target])] as const)}
      />
      {kind === "pool" ? (
        <NamesField name="pool" label={t("volume.pool")} names={pools.items.map(({ name }) => name)} isNeeded />
      ) : kind === "label" ? (
        <TextField
          name="label"
          label={t("policy.by.label")}
          about="KEY=VALUE"
          fits={(text) => readLabel(text) !== undefined}
          why={t("policy.label.wrong")}
        />
      ) : (
        <NamesField
          name="volumes"
          label={t("screen.volumes")}
          names={volumes.items.map(({ name }) => name)}
          isMany
          isNeeded
        />
      )}
    </>
  );
}

export function WhenFields() {
  const { t } = useSpeech();
  return (
    <>
      <TextField name="schedule" label={t("policy.schedule")} about={t("policy.schedule.about")} isNeeded />
      <TextField name="zone" label={t("policy.zone")} about={t("policy.zone.about")} isNeeded />
    </>
  );
}

export function KeepFields() {
  const { t } = useSpeech();
  return (
    <div className="field-row">
      {RULES.map((rule) => (
        <NumberField key={rule} name={["keep", rule]} label={t(RULE_WORDS[rule])} min={0} max={MOST} />
      ))}
    </div>
  );
}

/** All that a policy has; its name only where it is to be made. */
export function PolicyFields({ isNew }: { isNew: boolean }) {
  const { t } = useSpeech();
  return (
    <>
      {isNew ? <NameField label={t("policy.name")} /> : null}
      <TargetFields />
      <WhenFields />
      <TextField name="template" label={t("policy.template")} about={t("policy.template.about")} isNeeded />
      <p>{t("policy.keep.about")}</p>
      <KeepFields />
      <CheckField name="together" label={t("policy.together")} about={t("policy.together.about")} />
    </>
  );
}
