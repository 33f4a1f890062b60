// What the WebSocket says, and what follows from it. Pure but for the signals it is handed.
import { batch, signal, type Signal } from "@preact/signals";
import type { LiveEvent, Me, Request, ServerMessage } from "../api/types";
import { affects } from "./events";
import { Tasks } from "./tasks";

/** Tasks whose words are followed at once. */
const MAX_STREAMS = 256;
/** A spoken text is kept up to this; the transcript has the whole. */
const MAX_STREAM_CHARS = 200_000;

export class Store {
  readonly tasks = new Tasks();
  readonly requests = signal<ReadonlyMap<string, Request>>(new Map());
  readonly me = signal<Me | null>(null);
  readonly version = signal("");
  /** Grows when what is shown must be asked for again: another life of the server, or missed events. */
  readonly resync = signal(0);
  /** The last open request that got its reply, as it was. */
  readonly withdrawn = signal<Request | null>(null);
  /** The last event of any task, for pages that follow one. */
  readonly event = signal<LiveEvent | null>(null);
  private readonly streams = new Map<string, Signal<string>>();
  private epoch = "";
  private seq = 0;
  private greeted = false;
  private connected = false;

  /** Where to go on after a lost connection. */
  get resume(): { epoch: string; seq: number } | undefined {
    return this.epoch ? { epoch: this.epoch, seq: this.seq } : undefined;
  }

  streamedText(task: string): Signal<string> {
    const text = this.streams.get(task) ?? signal("");
    // The one that was used last stands last; old ones that say nothing are let go.
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
        // Events come again, but changed records of the time between do not.
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
      // The first greeting finds a page that asks for everything anyway.
      if (this.greeted) this.requestResync();
    }
    this.greeted = true;
  }

  private onSnapshot(message: Extract<ServerMessage, { type: "snapshot" }>): void {
    this.tasks.put(message.tasks);
    // Others see a part only, and events that they were sent may still be on their way here.
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

  /** A request is open from its question to its answer, or to the end of who asked. */
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
    // Two subscriptions may both bring it, and so may a resumed one.
    if (event.seq <= this.seq) return;
    this.seq = event.seq;
    if (affects(event, "stream")) this.streamedText(event.task_id).value = "";
    if (event.type === "deleted") this.tasks.remove([event.task_id]);
    this.updateRequests(event);
    this.event.value = event;
  }
}

/** The subscription that every page has. */
export const ALL = "all";

export function isOpen(request: Request): boolean {
  return request.reply === null;
}
