// Icons. Each status has its own shape, so that colour is never the only sign.
import type { ComponentChildren } from "preact";
import type { Status } from "../api/types";

function Drawing({
  children,
  spin = false,
  size = 14,
}: {
  children: ComponentChildren;
  spin?: boolean;
  size?: number;
}) {
  return (
    <svg
      class={spin ? "spin" : undefined}
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.8"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {children}
    </svg>
  );
}

export type Mark = Status | "paused" | "needs_you";

export function StatusIcon({ mark }: { mark: Mark }) {
  switch (mark) {
    case "pending":
      return (
        <Drawing>
          <circle cx="8" cy="8" r="5.5" stroke-dasharray="2.2 2.2" />
        </Drawing>
      );
    case "running":
      return (
        <Drawing spin>
          <path d="M8 2.2a5.8 5.8 0 1 1-5.8 5.8" />
        </Drawing>
      );
    case "completed":
      return (
        <Drawing>
          <path d="m3 8.5 3.4 3.4L13 4.6" />
        </Drawing>
      );
    case "failed":
      return (
        <Drawing>
          <path d="m4 4 8 8M12 4l-8 8" />
        </Drawing>
      );
    case "timeout":
      return (
        <Drawing>
          <circle cx="8" cy="8" r="6" />
          <path d="M8 4.5V8l2.4 1.6" />
        </Drawing>
      );
    case "cancelled":
      return (
        <Drawing>
          <circle cx="8" cy="8" r="6" />
          <path d="m4 12 8-8" />
        </Drawing>
      );
    case "needs_you":
      return (
        <Drawing>
          <path d="M4 11V7a4 4 0 0 1 8 0v4l1.200 1.500H2.800zM6.800 14.500h2.400" />
        </Drawing>
      );
    case "paused":
      return (
        <Drawing>
          <path d="M5.5 3.5v9M10.5 3.5v9" />
        </Drawing>
      );
  }
}

const PATHS = {
  tasks: "M2.5 3.5h3M7.5 3.5h6M5 8h2M9 8h4.5M5 12.5h2M9 12.5h4.5M3 5.5v7H5M3 8h2",
  chat: "M2.5 3h11v8H7l-3 2.5V11H2.5z",
  timeline: "M2 3.5h6M5 8h7M8 12.5h6",
  approvals: "M8 1.8 13 4v4c0 3-2 5-5 6.2C5 13 3 11 3 8V4zM5.8 8l1.6 1.6L10.4 6.400",
  agents:
    "M8 7.500a2.600 2.600 0 1 0 0-5.200 2.600 2.600 0 0 0 0 5.200M2.800 14c0-2.800 2.300-4.500 5.200-4.500s5.200 1.700 5.200 4.500",
  stats: "M3 13.500V8M8 13.500V2.500M13 13.500V6",
  chevron: "m6 3.500 4.500 4.500L6 12.500",
  back: "M10 3.500 5.500 8l4.500 4.500",
  plus: "M8 3v10M3 8h10",
  help: "M6 6a2 2 0 1 1 2.800 1.800c-.6.3-.8.700-.8 1.500M8 12.500v.1",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1.500v1M8 13.500v1M1.500 8h1M13.500 8h1M3.400 3.400l.7.7M11.900 11.900l.7.7M3.400 12.600l.7-.7M11.900 4.100l.7-.7",
  moon: "M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z",
  half: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  copy: "M5.500 5.500h7v8h-7zM3.500 10.500v-8h7",
  list: "M2.500 4h11M2.500 8h11M2.500 12h11",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <Drawing size={size}>
      <path d={PATHS[name]} />
    </Drawing>
  );
}

export function Logo() {
  return (
    <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" fill="#0f5e9c" />
      <path
        d="M7 22 16 7l9 15"
        fill="none"
        stroke="#fff"
        stroke-width="3"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
      <circle cx="7" cy="24" r="2.4" fill="#fff" />
      <circle cx="16" cy="24" r="2.4" fill="#fff" />
      <circle cx="25" cy="24" r="2.4" fill="#fff" />
    </svg>
  );
}
