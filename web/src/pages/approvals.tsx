// The open approval requests and questions.
import { useEffect } from "preact/hooks";
import { t } from "../i18n";
import { refreshRequests, store } from "../live";
import { href } from "../router";
import { useKeys, useTitle } from "../ui/hooks";
import { RequestCard, useRequestKeys } from "../ui/request";

export function ApprovalsPage() {
  useEffect(refreshRequests, [store.resync.value]);
  const list = [...store.requests.value.values()].sort((a, b) => (a.asked_at < b.asked_at ? -1 : 1));
  const move = (by: number) => {
    const cards = [...document.querySelectorAll<HTMLElement>("main article")];
    const at = cards.findIndex((card) => card.contains(document.activeElement));
    const card = cards[Math.max(0, Math.min(cards.length - 1, at + by))];
    // Shortcuts do not work in a field, so the default button is preferred.
    const target = card?.querySelector<HTMLElement>("[data-default]") ?? card?.querySelector("input, button");
    if (target instanceof HTMLElement) target.focus();
  };
  useTitle(t("approvals.title"));
  useKeys({ j: () => move(1), k: () => move(-1) });
  useRequestKeys();
  return (
    <div class="page">
      <div class="head">
        <h1 class="grow">{t("approvals.title")}</h1>
        <span class="quiet" role="status">
          {t("approvals.count", { count: list.length })}
        </span>
      </div>
      {list.length === 0 && (
        <div class="none">
          <p>{t("approvals.empty")}</p>
          <a class="button" href={href({ page: "tasks" })}>
            {t("app.unknown.go")}
          </a>
        </div>
      )}
      {list.map((request) => (
        <RequestCard key={request.id} request={request} linked />
      ))}
    </div>
  );
}
