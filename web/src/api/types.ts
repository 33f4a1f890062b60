// Short names for the generated types that the page uses.
import type { components, paths } from "./schema";

type Schemas = components["schemas"];

export type Agent = Schemas["Agent"];
export type Approval = Schemas["Approval"];
export type Balance = Schemas["Balance"];
export type Cancelled = Schemas["Cancelled"];
export type ClientMessage = Schemas["ClientMessage"];
export type DelegationReport = Schemas["DelegationReport"];
export type LiveEvent = Schemas["LiveEvent"];
export type Me = Schemas["Me"];
export type ModelChoices = Schemas["ModelChoices"];
export type Mode = Schemas["Mode"];
export type Priority = Schemas["Priority"];
export type Question = Schemas["Question"];
export type Request = Schemas["Request"];
export type Ruling = Schemas["Ruling"];
export type ServerState = Schemas["ServerState"];
export type ServerMessage = Schemas["ServerMessage"];
export type Session = Schemas["Session"];
export type SessionDetail = Schemas["SessionDetail"];
export type Stats = Schemas["Stats"];
export type Status = Schemas["Status"];
export type Subscription = Schemas["Subscribe"];
export type Task = Schemas["Task"];
export type TaskDetail = Schemas["TaskDetail"];
export type Timeline = Schemas["Timeline"];
export type TimelineTask = Schemas["TimelineTask"];
export type TranscriptItem = Schemas["TranscriptItem"];
export type Turn = Schemas["Turn"];
export type UsagePoint = Schemas["UsagePoint"];

/** The query of the list of tasks. */
export type TaskQuery = NonNullable<paths["/api/tasks"]["get"]["parameters"]["query"]>;

/** Activities of a timeline span. The API documents them as text; an unknown one is shown as `other`. */
export type SpanKind =
  "slot" | "model" | "rate_limit" | "tool" | "approval" | "question" | "children" | "paused" | "other";
