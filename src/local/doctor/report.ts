/** How the doctor's findings are shown: a line each. */
import type { Shown } from "./there.ts";

const WORDS = { ok: "ok", failed: "FAIL", skipped: "skip" } as const satisfies Record<Shown["status"], string>;

/** Longest name of a check: the details stand below each other. */
const NAME_WIDTH = "configuration".length;

/** What came from a server may hold anything; on a terminal it is text. */
const printable = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, " ");

export const lineOf = ({ name, status, detail }: Shown): string =>
  `${WORDS[status].padEnd(4)}  ${printable(name).padEnd(NAME_WIDTH)}  ${printable(detail)}`;

/** 1 where any check failed. */
export const exitCodeOf = (findings: readonly Shown[]): 0 | 1 =>
  findings.some(({ status }) => status === "failed") ? 1 : 0;
