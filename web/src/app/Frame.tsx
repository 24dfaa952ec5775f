// What is around every screen: the way to the others, whether the cluster is well, and who looks.
import { Spin } from "antd";
import { lazy, Suspense, useCallback, useState } from "react";
import { useThing } from "../api/queries";
import { asProblem } from "../api/problem";
import { useChanges } from "../api/live";
import { useSpeech } from "../i18n";
import { usePlace } from "../lib/router";
import { Guard } from "./Guard";
import { HealthWord } from "./HealthWord";
import { Navigation } from "./Navigation";
import { SCREENS } from "./screens";
import { Preferences } from "./Preferences";
import { useKeys } from "./keys";

const Login = lazy(() => import("./Login"));
const KeysHelp = lazy(() => import("./KeysHelp"));

function Waiting() {
  const { t } = useSpeech();
  return <Spin aria-label={t("frame.loading")} />;
}

function useScreen() {
  const { path } = usePlace();
  return SCREENS.find(({ id }) => id === path[0]) ?? SCREENS[0]!;
}

export function Frame() {
  const { t } = useSpeech();
  const [isHelpOpen, setHelpOpen] = useState(false);
  useKeys(useCallback(() => setHelpOpen(true), []));
  const screen = useScreen();
  const health = useThing("/api/v1/health");
  const isStranger = health.error !== null && asProblem(health.error).status === 401;
  useChanges(health.data !== undefined && !isStranger);
  if (isStranger) {
    return (
      <Suspense fallback={<Waiting />}>
        <Login />
      </Suspense>
    );
  }
  return (
    <div className="frame">
      <a
        className="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}
      >
        {t("frame.skip")}
      </a>
      <header className="top">
        <span className="brand">Amita</span>
        <HealthWord health={health.data?.data} error={health.error} />
        <Preferences />
      </header>
      <Navigation current={screen.id} />
      <main id="main" tabIndex={-1} aria-label={t(screen.title)}>
        <Guard key={screen.id}>
          <Suspense fallback={<Waiting />}>
            <screen.View />
          </Suspense>
        </Guard>
      </main>
      <Suspense>{isHelpOpen ? <KeysHelp onClose={() => setHelpOpen(false)} /> : null}</Suspense>
    </div>
  );
}
