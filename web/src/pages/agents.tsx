// The agents that tasks can run as.
import { get } from "../api/client";
import { t, word } from "../i18n";
import { agents } from "../live";
import { sanitize, sanitizeLine } from "../markdown/sanitize";
import { go, href } from "../router";
import { Pre } from "../ui/code";
import { useKeys, useLoad, useTitle } from "../ui/hooks";
import { AgentName, Loading, ProblemNotice } from "../ui/parts";

export function AgentsPage({ name }: { name: string | null }) {
  const loaded = useLoad("agents", (signal) => get("/api/agents", { signal }));
  const list = loaded.data ?? agents.value;
  const move = (by: number) => {
    const at = list.findIndex((agent) => agent.name === name);
    const next = list[Math.max(0, Math.min(list.length - 1, at + by))];
    if (next) go({ page: "agents", name: next.name }, true);
  };
  useTitle(name ?? t("agents.title"));
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Escape: () => go({ page: "agents", name: null }),
  });
  if (loaded.problem)
    return (
      <div class="page">
        <ProblemNotice problem={loaded.problem} again={loaded.reload} />
      </div>
    );
  if (list.length === 0) return <Loading />;
  return (
    <div class="page">
      <h1>{t("agents.title")}</h1>
      {name && <Detail key={name} name={name} />}
      <ul class="agents">
        {list.map((agent) => (
          <li key={agent.name}>
            <a
              href={href({ page: "agents", name: agent.name })}
              aria-current={agent.name === name ? "true" : undefined}
            >
              <div class="card grow stack gap-s">
                <div class="row">
                  <h2 class="grow">
                    <AgentName name={agent.name} />
                  </h2>
                  {agent.read_only && <span class="tag">{t("agents.readOnly")}</span>}
                </div>
                <p class="small">{sanitize(agent.when_to_use).slice(0, 260)}</p>
                <p class="quiet small">
                  {word("agents.source", agent.source)} ·{" "}
                  <span class="mono">{sanitizeLine(agent.model)}</span>
                </p>
              </div>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Detail({ name }: { name: string }) {
  const loaded = useLoad(`agent/${name}`, (signal) => get("/api/agents/{name}", { path: { name }, signal }));
  if (loaded.problem) return <ProblemNotice problem={loaded.problem} again={loaded.reload} />;
  const agent = loaded.data;
  if (!agent) return <Loading />;
  const rules = (list: string[]) =>
    list.map((rule) => (
      <>
        <code>{sanitizeLine(rule)}</code>{" "}
      </>
    ));
  return (
    <section class="card stack" aria-label={sanitizeLine(agent.name)}>
      <div class="row wrap">
        <h2 class="grow">
          <AgentName name={agent.name} />
        </h2>
        {agent.read_only && <span class="tag">{t("agents.readOnly")}</span>}
        {agent.main && <span class="tag">{t("agents.main")}</span>}
      </div>
      <p>{sanitize(agent.when_to_use)}</p>
      <dl class="facts">
        <dt>{t("agents.model")}</dt>
        <dd class="mono">{sanitizeLine(agent.model)}</dd>
        <dt>{t("agents.source")}</dt>
        <dd>{word("agents.source", agent.source)}</dd>
        <dt>{t("policy.allow")}</dt>
        <dd>{agent.tools.allow === null ? t("policy.everything") : rules(agent.tools.allow)}</dd>
        <dt>{t("policy.deny")}</dt>
        <dd>{agent.tools.deny.length > 0 ? rules(agent.tools.deny) : t("app.none")}</dd>
        <dt>{t("agents.iterations")}</dt>
        <dd>{agent.max_iterations ?? t("app.none")}</dd>
      </dl>
      <details open>
        <summary>{t("agents.prompt")}</summary>
        <Pre text={agent.prompt} />
      </details>
    </section>
  );
}
