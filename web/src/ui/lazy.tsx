// Loads a component when it is first shown.
import type { FunctionComponent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../api/client";
import { Loading, ProblemNotice } from "./parts";

export function Lazy<P extends object>({
  load,
  props,
}: {
  load: () => Promise<FunctionComponent<P>>;
  props: P;
}) {
  const [state, setState] = useState<{ part?: FunctionComponent<P>; problem?: Problem }>({});
  const [attempt, setAttempt] = useState(0);
  // The function is new on each render and loads the same component.
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    latest.current().then(
      (part) => setState({ part }),
      (error: unknown) => setState({ problem: new Problem(0, "", String(error)) }),
    );
  }, [attempt]);
  if (state.problem) return <ProblemNotice problem={state.problem} again={() => setAttempt(attempt + 1)} />;
  const Part = state.part;
  return Part ? <Part {...props} /> : <Loading />;
}
