/** Programs of Debian's packages that some checks need: where they are, and how they get there. */
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";

export interface DebianPackage {
  /** What apt knows it by. */
  readonly package: string;
  /** The path of its program. */
  readonly binary: string;
  /** The environment variable that may name another program. */
  readonly variable: string;
}

/** A program that is needed is not there, and could not be had; the message says what to do. */
export class MissingProgramError extends Error {
  override readonly name = "MissingProgramError";
}

export interface Machine {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether there is a program at this path. */
  readonly isExecutable: (path: string) => boolean;
  /** Of the user; 0 is root, undefined where there are none. */
  readonly userId: number | undefined;
  /** Runs a command with its output on ours. @returns its exit code; 127 where there is no such command */
  readonly run: (command: string, args: readonly string[], env: Readonly<Record<string, string>>) => number;
  /** Told what is being done. */
  readonly say: (text: string) => void;
}

const installCommand = (name: string): string => `apt-get install -y --no-install-recommends ${name}`;

/**
 * Where the program is.
 * @throws MissingProgramError where it is not; nothing is installed
 */
export const programOf = (
  { package: name, binary, variable }: DebianPackage,
  { env, isExecutable }: Pick<Machine, "env" | "isExecutable">,
): string => {
  const asked = env[variable] ?? "";
  const path = asked === "" ? binary : asked;
  if (isExecutable(path)) return path;
  const hint = `install Debian's package (${installCommand(name)}, as root), or set ${variable} to the path of another ${name}`;
  throw new MissingProgramError(`There is no program at ${path}${asked === "" ? "" : ` (${variable})`}: ${hint}.`);
};

/** Debian's own questions must not wait for an answer. */
const QUIET = { DEBIAN_FRONTEND: "noninteractive" };

/**
 * Makes sure that the program is there: Debian's package is installed where it is not.
 * @returns its path
 * @throws MissingProgramError where it cannot be installed, or is not there even so
 */
export const ensureDebianPackage = (wanted: DebianPackage, machine: Machine): string => {
  const { package: name, binary, variable } = wanted;
  const { env, isExecutable, userId, run, say } = machine;
  // A path that somebody set is theirs to put right.
  if ((env[variable] ?? "") !== "" || isExecutable(binary)) return programOf(wanted, machine);
  if (userId !== 0)
    throw new MissingProgramError(
      `There is no program at ${binary}, and only root can install it: run ${installCommand(name)} as root, or set ${variable} to the path of another ${name}.`,
    );
  say(`installing Debian's package ${name}`);
  // Old lists name versions that the servers no longer have.
  const updated = run("apt-get", ["update"], QUIET);
  const installed = run("apt-get", ["install", "-y", "--no-install-recommends", name], QUIET);
  if (installed !== 0)
    throw new MissingProgramError(
      `${installCommand(name)} ended with ${installed} (apt-get update before it with ${updated}), so there is no ${binary}.`,
    );
  return programOf(wanted, machine);
};

export const chromium: DebianPackage = { package: "chromium", binary: "/usr/bin/chromium", variable: "CHROMIUM_PATH" };

/** With `promtool` beside it. */
export const prometheus: DebianPackage = {
  package: "prometheus",
  binary: "/usr/bin/prometheus",
  variable: "PROMETHEUS_PATH",
};

/** Whether there is a program that this user may run. */
const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** The one that this runs on. */
export const thisMachine: Machine = {
  env: process.env,
  isExecutable,
  userId: process.getuid?.(),
  run: (command, args, env) =>
    spawnSync(command, args, { stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, ...env } }).status ??
    127,
  say: console.log,
};
