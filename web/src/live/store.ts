// The live state: applies messages of the WebSocket to signals. Does no I/O.
import { batch, signal, type Signal } from "@preact/signals";
import type { LiveEvent, Me, Request, ServerMessage } from "../api/types";
import { affects } from "./events";
import { Tasks } from "./tasks";

/** Limit for tasks whose streamed text is kept. */
const MAX_STREAMS = 256;
/** Streamed text is truncated to its last characters; the transcript has all of it. */
const MAX_STREAM_CHARS = 200_000;

export class Store {
  readonly tasks = new Tasks();
  readonly requests = signal<ReadonlyMap<string, Request>>(new Map());
  readonly me = signal<Me | null>(null);
  readonly version = signal("");
  /** Increments when all data must be reloaded: the server restarted, or events were missed. */
  readonly resync = signal(0);
  /** The open request that was replied to last, as it was before the reply. */
  readonly withdrawn = signal<Request | null>(null);
  /** The last event of any task. */
  readonly event = signal<LiveEvent | null>(null);
  private readonly streams = new Map<string, Signal<string>>();
  private epoch = "";
  private seq = 0;
  private greeted = false;
  private connected = false;

  /** The position to resume from after a lost connection. */
  get resume(): { epoch: string; seq: number } | undefined {
    return this.epoch ? { epoch: this.epoch, seq: this.seq } : undefined;
  }

  streamedText(task: string): Signal<string> {
    const text = this.streams.get(task) ?? signal("");
    // The map is ordered by last use; the oldest empty streams are dropped.
    this.streams.delete(task);
    this.streams.set(task, text);
    for (const [old, silent] of this.streams) {
      if (this.streams.size <= MAX_STREAMS) break;
      if (silent.peek() === "") this.streams.delete(old);
    }
    return text;
  }

  receive(message: ServerMessage): void {
    batch(() => this.apply(message));
  }

  private apply(message: ServerMessage): void {
    switch (message.type) {
      case "hello":
        return this.onHello(message);
      case "snapshot":
        return this.onSnapshot(message);
      case "tasks":
        this.tasks.put(message.tasks);
        return;
      case "text": {
        const text = this.streamedText(message.task_id);
        text.value = (text.peek() + message.text).slice(-MAX_STREAM_CHARS);
        return;
      }
      case "subscribed":
        // A resumed connection replays events, but not the changes of records.
        if (message.id === ALL && message.resumed && this.connected) this.requestResync();
        if (message.id === ALL) this.connected = true;
        return;
      case "heartbeat":
      case "pong":
      case "error":
        return;
      default:
        return this.onEvent(message);
    }
  }

  private onHello(message: Extract<ServerMessage, { type: "hello" }>): void {
    this.me.value = message.me;
    this.version.value = message.version;
    if (this.epoch && this.epoch !== message.epoch) {
      this.epoch = "";
      this.seq = 0;
    }
    if (!this.epoch) {
      this.epoch = message.epoch;
      this.seq = message.seq;
      // On the first hello the page loads everything anyway.
      if (this.greeted) this.requestResync();
    }
    this.greeted = true;
  }

  private onSnapshot(message: Extract<ServerMessage, { type: "snapshot" }>): void {
    this.tasks.put(message.tasks);
    // Other subscriptions see a part only, and events before their snapshot may still arrive here.
    if (message.id !== ALL) return;
    const again = typeof message.missed === "number" || message.seq > this.seq;
    this.seq = Math.max(this.seq, message.seq);
    this.requests.value = new Map(message.requests.filter(isOpen).map((request) => [request.id, request]));
    if (again) this.requestResync();
  }

  private requestResync(): void {
    for (const text of this.streams.values()) text.value = "";
    this.resync.value++;
  }

  /** A request is open until it is replied to or its task ends. */
  private updateRequests(event: LiveEvent): void {
    const open = this.requests.peek();
    const next = new Map(open);
    if (event.type === "asked") next.set(event.request.id, event.request);
    if (event.type === "replied") {
      this.withdrawn.value = open.get(event.request_id) ?? this.withdrawn.peek();
      next.delete(event.request_id);
    }
    if (affects(event, "requests")) {
      for (const request of open.values()) if (request.task_id === event.task_id) next.delete(request.id);
    }
    if (event.type === "asked" || next.size < open.size) this.requests.value = next;
  }

  private onEvent(event: LiveEvent): void {
    // Two subscriptions, or a resumed one, may deliver the same event twice.
    if (event.seq <= this.seq) return;
    this.seq = event.seq;
    if (affects(event, "stream")) this.streamedText(event.task_id).value = "";
    if (event.type === "deleted") this.tasks.remove([event.task_id]);
    this.updateRequests(event);
    this.event.value = event;
  }
}

/** The id of the subscription to all events, which is always active. */
export const ALL = "all";

export function isOpen(request: Request): boolean {
  return request.reply === null;
}
