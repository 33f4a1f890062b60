// The tasks that the page knows: one signal each, so that a change draws one row instead of the list.
import { batch, signal, type Signal } from "@preact/signals";
import type { Task } from "../api/types";

export class Tasks {
  private readonly known = new Map<string, Signal<Task>>();
  /** Ids by parent ("" for none), in order of creation: ids are UUIDv7 and sort by time. */
  private readonly below = new Map<string, string[]>();
  /** Increments when a task is added or removed. */
  readonly structure = signal(0);
  /** Increments when a field that filters and counts depend on has changed. */
  readonly states = signal(0);

  get(id: string): Signal<Task> | undefined {
    return this.known.get(id);
  }

  /** Returns a record. A component that calls this is drawn again when the record arrives or changes. */
  read(id: string): Task | undefined {
    const known = this.known.get(id);
    if (!known) void this.structure.value;
    return known?.value;
  }

  get size(): number {
    return this.known.size;
  }

  all(): Iterable<Signal<Task>> {
    return this.known.values();
  }

  children(id: string): readonly string[] {
    return this.below.get(id) ?? [];
  }

  /** Adds or updates records. An older record than the known one is ignored: a slow answer may bring it. */
  put(records: readonly Task[]): void {
    batch(() => {
      let came = false;
      let changed = false;
      for (const task of records) {
        const old = this.known.get(task.task_id);
        if (!old) {
          this.known.set(task.task_id, signal(task));
          this.place(task);
          came = true;
          continue;
        }
        const before = old.peek();
        if (task.seq < before.seq) continue;
        changed ||=
          before.status !== task.status ||
          before.paused !== task.paused ||
          before.label !== task.label ||
          before.waiting_on !== task.waiting_on;
        old.value = task;
      }
      if (came) this.structure.value++;
      if (came || changed) this.states.value++;
    });
  }

  remove(ids: Iterable<string>): void {
    let gone = false;
    for (const id of ids) {
      const task = this.known.get(id)?.peek();
      if (!task) continue;
      this.known.delete(id);
      const siblings = this.below.get(task.parent_id ?? "");
      const at = siblings?.indexOf(id) ?? -1;
      if (siblings && at >= 0) siblings.splice(at, 1);
      if (siblings?.length === 0) this.below.delete(task.parent_id ?? "");
      gone = true;
    }
    if (!gone) return;
    batch(() => {
      this.structure.value++;
      this.states.value++;
    });
  }

  /** Inserts a task among its siblings, searching from the end, where new tasks belong. */
  private place(task: Task): void {
    const key = task.parent_id ?? "";
    const siblings = this.below.get(key);
    if (!siblings) {
      this.below.set(key, [task.task_id]);
      return;
    }
    let at = siblings.length;
    if (at > 0 && siblings[0]! > task.task_id) at = 0;
    while (at > 0 && siblings[at - 1]! > task.task_id) at--;
    siblings.splice(at, 0, task.task_id);
  }
}
