/** Runs commands of the project one after another and keeps what came of each. */
import { spawn } from "node:child_process";
import { delimiter, join } from "node:path";

export const PROJECT = join(import.meta.dirname, "../..");
const BIN = join(PROJECT, "node_modules/.bin");

export interface Step {
  readonly name: string;
  /** A command of `node_modules/.bin`, or a script of the project, and its arguments. */
  readonly command: readonly [string, ...string[]];
  /** Variables beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface StepResult {
  readonly name: string;
  readonly exitCode: number;
  readonly elapsedMs: number;
}

/**
 * Runs one step with this Node, its output on ours.
 * @param now ms, for the elapsed time
 */
export const runStep = async ({ name, command, env: own }: Step, now: () => number): Promise<StepResult> => {
  const startedMs = now();
  const [first, ...args] = command;
  const script = join(first.endsWith(".ts") ? PROJECT : BIN, first);
  const env = { ...process.env, ...own, PATH: `${BIN}${delimiter}${process.env["PATH"] ?? ""}` };
  const child = spawn(process.execPath, [script, ...args], {
    cwd: PROJECT,
    stdio: ["ignore", "inherit", "inherit"],
    env,
  });
  const exitCode = await new Promise<number>((done) => {
    child.on("error", () => done(127));
    child.on("exit", (code) => done(code ?? 1));
  });
  return { name, exitCode, elapsedMs: now() - startedMs };
};

/** One line for a result. */
export const inWords = ({ name, exitCode, elapsedMs }: StepResult): string =>
  `${exitCode === 0 ? "ok    " : "FAILED"}  ${name.padEnd(12)} ${(elapsedMs / 1000).toFixed(1)} s`;
