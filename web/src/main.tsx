import { render } from "preact";
import { onPageKeyChange, takePageKey } from "./api/page-key";
import { loggedOut } from "./api/client";
import { App } from "./app";
import { start } from "./live";
import { followLinks, go } from "./router";
import { watchWithdrawn } from "./ui/request";
import "./style.css";

takePageKey();
// A login in another tab reloads this one; a logout there logs this one out.
onPageKeyChange((key) => {
  if (key && loggedOut.peek()) location.reload();
  else if (!key) loggedOut.value = "ended";
});
if (location.pathname === "/") go({ page: "tasks" }, true);
addEventListener("click", followLinks);
start();
watchWithdrawn();
render(<App />, document.getElementById("app")!);
