// Computes which lines of a long list are drawn. Pure.
export interface Window {
  first: number;
  last: number;
}

/** Lines drawn beyond both edges, so that a quick scroll does not show an empty area. */
export const BEYOND = 12;

export function visible(scroll: number, height: number, row: number, count: number): Window {
  const first = Math.max(0, Math.min(count, Math.floor(scroll / row)) - BEYOND);
  const last = Math.min(count, Math.ceil((scroll + height) / row) + BEYOND);
  return { first, last: Math.max(first, last) };
}

/** Returns the scroll position that makes a line visible; unchanged if it is visible already. */
export function intoView(index: number, scroll: number, height: number, row: number): number {
  if (index * row < scroll) return index * row;
  if ((index + 1) * row > scroll + height) return (index + 1) * row - height;
  return scroll;
}
