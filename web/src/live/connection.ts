// The WebSocket of the page: reconnects, reports its status, and resumes where it was.
import { signal } from "@preact/signals";
import { loggedOut } from "../api/client";
import { socketProtocols } from "../api/page-key";
import type { ClientMessage, ServerMessage, Subscription } from "../api/types";
import { ALL, type Store } from "./store";

export type ConnectionStatus =
  { state: "connecting" } | { state: "on" } | { state: "lost"; until: number; tries: number };

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
/** After this many silent heartbeats the connection counts as dead, although it looks open. */
const MISSED_HEARTBEATS = 2.5;

/** Returns a delay that grows with each attempt, with jitter so that many pages do not reconnect at once. */
export function backOff(tries: number, chance = Math.random()): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(tries, 10)) * (0.75 + chance / 2);
}

export class Connection {
  readonly status = signal<ConnectionStatus>({ state: "connecting" });
  private socket: WebSocket | null = null;
  private readonly subscriptions = new Map<string, Subscription>([[ALL, { id: ALL, scope: "all" }]]);
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private silenceLimitMs = 40_000;

  constructor(
    private readonly store: Store,
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
    if (this.tries === 0) this.status.value = { state: "connecting" };
    socket.onmessage = (event) => this.onMessage(socket, String(event.data));
    socket.onclose = () => this.onClose(socket);
    this.restartWatchdog();
  }

  /** Reconnects at once if the connection is lost; otherwise sends a ping to detect a dead one. */
  wake(): void {
    if (loggedOut.peek()) return;
    if (this.status.peek().state === "lost") this.open();
    else this.send({ type: "ping", n: Date.now() % 1_000_000 });
  }

  /** Closes the connection: the device has reported that it is offline. */
  offline(): void {
    this.socket?.close();
  }

  /** Adds a subscription to this and all later connections. Returns a function that ends it. */
  subscribe(subscription: Subscription): () => void {
    this.subscriptions.set(subscription.id, subscription);
    if (this.status.peek().state === "on") this.send({ type: "subscribe", ...subscription });
    return () => {
      this.subscriptions.delete(subscription.id);
      if (this.status.peek().state === "on") this.send({ type: "unsubscribe", id: subscription.id });
    };
  }

  private onMessage(socket: WebSocket, data: string): void {
    if (socket !== this.socket) return;
    this.restartWatchdog();
    let message: ServerMessage;
    try {
      message = JSON.parse(data) as ServerMessage;
    } catch {
      // Not a message of the server; reconnect.
      socket.close();
      return;
    }
    if (message.type === "hello") this.onHello(message);
    this.store.receive(message);
  }

  private onHello(hello: Extract<ServerMessage, { type: "hello" }>): void {
    this.silenceLimitMs = hello.heartbeat_ms * MISSED_HEARTBEATS;
    const at = this.store.resume;
    const resume = at && at.epoch === hello.epoch ? at : undefined;
    this.tries = 0;
    this.status.value = { state: "on" };
    for (const subscription of this.subscriptions.values()) {
      this.send({
        type: "subscribe",
        ...subscription,
        ...(resume && subscription.id === ALL ? { resume } : {}),
      });
    }
  }

  private send(message: ClientMessage): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private restartWatchdog(): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.socket?.close(), this.silenceLimitMs);
  }

  private onClose(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.socket = null;
    clearTimeout(this.watchdog);
    const wait = backOff(this.tries);
    this.tries++;
    this.status.value = { state: "lost", until: Date.now() + wait, tries: this.tries };
    // A rejected upgrade looks like any other failure; the probe shows whether the login has ended.
    void this.probe().catch(() => undefined);
    this.timer = setTimeout(() => {
      if (!loggedOut.peek()) this.open();
    }, wait);
  }
}
