import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { App as Messages, ConfigProvider, theme as themes } from "antd";
import english from "antd/locale/en_US";
import chinese from "antd/locale/zh_CN";
import { asProblem } from "../api/problem";
import { SpeechProvider } from "../i18n";
import { Frame } from "./Frame";
import { SettingsProvider, useSettings } from "./settings";
import { partTokens, tokens } from "./tokens";

/** What the client has done wrong becomes no better by asking again. */
function tryAgain(failures: number, error: Error): boolean {
  const { status } = asProblem(error);
  return failures < 2 && (status === 0 || status >= 500);
}

const queries = new QueryClient({
  defaultOptions: { queries: { retry: tryAgain, refetchOnWindowFocus: true, staleTime: 1_000 } },
});

function Themed({ nonce }: { nonce: string }) {
  const { dark, language } = useSettings();
  return (
    <ConfigProvider
      csp={{ nonce }}
      locale={language === "zh" ? chinese : english}
      theme={{
        algorithm: dark ? themes.darkAlgorithm : themes.defaultAlgorithm,
        token: tokens(dark),
        components: partTokens(dark),
        hashed: false,
      }}
    >
      <Messages>
        <SpeechProvider language={language}>
          <Frame />
        </SpeechProvider>
      </Messages>
    </ConfigProvider>
  );
}

export function App({ nonce }: { nonce: string }) {
  return (
    <QueryClientProvider client={queries}>
      <SettingsProvider>
        <Themed nonce={nonce} />
      </SettingsProvider>
    </QueryClientProvider>
  );
}
