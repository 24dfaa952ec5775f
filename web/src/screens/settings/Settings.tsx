// The settings of the whole cluster, each with what it means.
import { useSpeech } from "../../i18n";
import { placeHref } from "../../lib/router";
import { RecoverySection } from "./RecoverySection";
import { ThresholdsSection } from "./ThresholdsSection";
import { VersionSection } from "./VersionSection";

export default function Settings() {
  const { t } = useSpeech();
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.settings")}</h1>
      </div>
      <p className="faint">
        {t("setting.about")}{" "}
        <a href={placeHref(["audit"], { action: "recovery.", since: "all" })}>{t("setting.history.recovery")}</a>{" "}
        <a href={placeHref(["audit"], { action: "pool.thresholds", since: "all" })}>
          {t("setting.history.thresholds")}
        </a>
      </p>
      <VersionSection />
      <ThresholdsSection />
      <RecoverySection />
    </>
  );
}
