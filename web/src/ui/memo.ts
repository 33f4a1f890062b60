// Draws a component again only when its properties changed. (The one of `preact/compat` brings much else.)
import { Component, h, type FunctionComponent } from "preact";

/** `same` names properties that are new each time and mean the same. */
export function memo<P extends object>(
  inner: FunctionComponent<P>,
  same: readonly (keyof P)[] = [],
): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const old = this.props as P;
      return (Object.keys(next) as (keyof P)[]).some((key) => next[key] !== old[key] && !same.includes(key));
    }
    override render() {
      return h(inner, this.props as P & { key?: never });
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
