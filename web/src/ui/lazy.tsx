// A part of the page that comes when it is first shown.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api/client";
import { Loading, Trouble } from "./parts";

export function Lazy<P extends object>({
  load,
  props,
}: {
  load: () => Promise<FunctionComponent<P>>;
  props: P;
}) {
  const [state, setState] = useState<{ part?: FunctionComponent<P>; problem?: Problem }>({});
  const bring = () =>
    load().then(
      (part) => setState({ part }),
      (error: unknown) => setState({ problem: new Problem(0, "", String(error)) }),
    );
  useEffect(() => void bring(), []);
  if (state.problem) return <Trouble problem={state.problem} again={() => void bring()} />;
  const Part = state.part;
  return Part ? <Part {...props} /> : <Loading />;
}
