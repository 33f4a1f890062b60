// The one WebSocket of the page: stays connected, says when it is not, goes on where it was.
import { signal } from "@preact/signals";
import { loggedOut } from "../api/client";
import { socketProtocols } from "../api/page-key";
import type { ClientMessage, ServerMessage, Subscription } from "../api/types";
import { ALL, type World } from "./messages";

export type Line =
  { state: "connecting" } | { state: "on" } | { state: "lost"; until: number; tries: number };

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
/** Silent for this many heartbeats: a connection that looks open and is not. */
const SILENT_BEATS = 2.5;

/** Grows with each try, with some chance in it so that many pages do not come back at once. */
export function backOff(tries: number, chance = Math.random()): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(tries, 10)) * (0.75 + chance / 2);
}

export class Connection {
  readonly line = signal<Line>({ state: "connecting" });
  private socket: WebSocket | null = null;
  private readonly wanted = new Map<string, Subscription>([[ALL, { id: ALL, scope: "all" }]]);
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private patience = 40_000;

  constructor(
    private readonly world: World,
    private readonly probe: () => Promise<unknown>,
  ) {}

  open(): void {
    clearTimeout(this.timer);
    if (this.socket) return;
    const socket = new WebSocket(
      `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/ws`,
      socketProtocols(),
    );
    this.socket = socket;
    if (this.tries === 0) this.line.value = { state: "connecting" };
    socket.onmessage = (event) => this.heard(socket, String(event.data));
    socket.onclose = () => this.closed(socket);
    this.listen();
  }

  /** Tries at once if the line is lost; asks for a sign of life if it seems not to be. */
  wake(): void {
    if (loggedOut.peek()) return;
    if (this.line.peek().state === "lost") this.open();
    else this.say({ type: "ping", n: Date.now() % 1_000_000 });
  }

  /** The device says that it has no network: what is shown may be old from now on. */
  offline(): void {
    this.socket?.close();
  }

  /** Adds a subscription, on this connection and on all after it. Returns how to end it. */
  subscribe(subscription: Subscription): () => void {
    this.wanted.set(subscription.id, subscription);
    if (this.line.peek().state === "on") this.say({ type: "subscribe", ...subscription });
    return () => {
      this.wanted.delete(subscription.id);
      if (this.line.peek().state === "on") this.say({ type: "unsubscribe", id: subscription.id });
    };
  }

  private heard(socket: WebSocket, data: string): void {
    if (socket !== this.socket) return;
    this.listen();
    let message: ServerMessage;
    try {
      message = JSON.parse(data) as ServerMessage;
    } catch {
      // Not from our server; a new connection sorts it out.
      socket.close();
      return;
    }
    if (message.type === "hello") this.greeted(message);
    this.world.take(message);
  }

  private greeted(hello: Extract<ServerMessage, { type: "hello" }>): void {
    this.patience = hello.heartbeat_ms * SILENT_BEATS;
    const at = this.world.resume;
    const resume = at && at.epoch === hello.epoch ? at : undefined;
    this.tries = 0;
    this.line.value = { state: "on" };
    for (const subscription of this.wanted.values()) {
      this.say({
        type: "subscribe",
        ...subscription,
        ...(resume && subscription.id === ALL ? { resume } : {}),
      });
    }
  }

  private say(message: ClientMessage): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private listen(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.socket?.close(), this.patience);
  }

  private closed(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.socket = null;
    clearTimeout(this.silence);
    const wait = backOff(this.tries);
    this.tries++;
    this.line.value = { state: "lost", until: Date.now() + wait, tries: this.tries };
    // A refused upgrade looks like any other failure; asking tells whether the login is over.
    void this.probe().catch(() => undefined);
    this.timer = setTimeout(() => {
      if (!loggedOut.peek()) this.open();
    }, wait);
  }
}
