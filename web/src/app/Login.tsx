import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Button, Form, Input } from "antd";
import { call, send } from "../api/call";
import { setToken } from "../api/token";
import { Problem } from "../components/Problem";
import { useSpeech } from "../i18n";
import { Preferences } from "./Preferences";

/** A token that the API does not take is forgotten again. */
async function tryToken(token: string): Promise<void> {
  setToken(token);
  try {
    await send(call("get", "/api/v1/health", {}));
  } catch (error) {
    setToken(null);
    throw error;
  }
}

export default function Login() {
  const { t } = useSpeech();
  const queries = useQueryClient();
  const login = useMutation({
    mutationFn: ({ token }: { token: string }) => tryToken(token.trim()),
    onSuccess: () => queries.invalidateQueries(),
  });
  return (
    <main className="login">
      <section className="card">
        <div className="screen-head">
          <h1>{t("login.title")}</h1>
          <span className="space" />
          <Preferences />
        </div>
        <p>{t("login.about")}</p>
        <Form<{ token: string }> layout="vertical" requiredMark={false} onFinish={(given) => login.mutate(given)}>
          <Form.Item
            name="token"
            label={t("login.token")}
            rules={[{ required: true, whitespace: true, message: t("login.needed") }]}
          >
            <Input.Password autoFocus autoComplete="current-password" spellCheck={false} />
          </Form.Item>
          {login.isError ? <Problem error={login.error} /> : null}
          <Button type="primary" htmlType="submit" loading={login.isPending}>
            {t("login.in")}
          </Button>
        </Form>
      </section>
    </main>
  );
}
