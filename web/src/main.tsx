import { render } from "preact";
import { App } from "./app";
import { start } from "./live";
import { followLinks, go } from "./router";
import "./style.css";

if (location.pathname === "/") go({ page: "tasks" }, true);
addEventListener("click", followLinks);
start();
render(<App />, document.getElementById("app")!);
