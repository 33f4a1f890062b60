// Draws a component again only when its properties changed. (`memo` of `preact/compat` loads much more code.)
import { Component, h, type FunctionComponent } from "preact";

/** `same` names properties to ignore: they are new on each render but equivalent. */
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
