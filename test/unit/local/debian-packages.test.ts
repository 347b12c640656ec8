import { describe, expect, test } from "vitest";
import {
  ensureDebianPackage,
  type Machine,
  MissingProgramError,
  programOf,
} from "../../../src/local/debian-packages.ts";

const WANTED = { package: "chromium", binary: "/usr/bin/chromium", variable: "CHROMIUM_PATH" };

interface Given {
  readonly there?: readonly string[];
  readonly env?: Machine["env"];
  readonly userId?: number | undefined;
  /** What apt-get's commands end with, by their first word. */
  readonly exitCodes?: Readonly<Record<string, number>>;
  /** What a successful install brings. */
  readonly brings?: string;
}

/** A machine of files and commands that are told, and the commands that were run on it. */
const machine = ({ there = [], env = {}, userId = 0, exitCodes = {}, brings = WANTED.binary }: Given) => {
  const files = new Set(there);
  const ran: string[] = [];
  const made: Machine = {
    env,
    userId,
    isExecutable: (path) => files.has(path),
    run: (command, args, variables) => {
      ran.push([...Object.entries(variables).map((pair) => pair.join("=")), command, ...args].join(" "));
      const exitCode = exitCodes[args[0] ?? ""] ?? 0;
      if (args[0] === "install" && exitCode === 0) files.add(brings);
      return exitCode;
    },
    say: () => undefined,
  };
  return { made, ran };
};

const problemOf = (act: () => unknown): string => {
  try {
    act();
  } catch (error) {
    if (error instanceof MissingProgramError) return error.message;
    throw error;
  }
  return "none";
};

const UPDATE = "DEBIAN_FRONTEND=noninteractive apt-get update";
const INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium";

describe("a program of a Debian package", () => {
  test("is used where it is, and nothing is installed", () => {
    const { made, ran } = machine({ there: [WANTED.binary] });
    expect([programOf(WANTED, made), ensureDebianPackage(WANTED, made), ran]).toEqual([
      WANTED.binary,
      WANTED.binary,
      [],
    ]);
  });

  test("is another one where the variable names it", () => {
    const { made, ran } = machine({ there: ["/opt/chrome"], env: { CHROMIUM_PATH: "/opt/chrome" } });
    expect([programOf(WANTED, made), ensureDebianPackage(WANTED, made), ran]).toEqual([
      "/opt/chrome",
      "/opt/chrome",
      [],
    ]);
  });

  test("is installed by root where it is missing, from fresh lists, without questions", () => {
    const { made, ran } = machine({});
    expect([ensureDebianPackage(WANTED, made), ran]).toEqual([WANTED.binary, [UPDATE, INSTALL]]);
  });

  test("is installed even where the lists could not all be had", () => {
    const { made } = machine({ exitCodes: { update: 100 } });
    expect(ensureDebianPackage(WANTED, made)).toBe(WANTED.binary);
  });

  test.each<[string, Given, string]>([
    ["to another user", { userId: 1_000 }, "only root can install it: run apt-get install"],
    ["where there are no users", { userId: undefined, there: [] }, "only root can install it"],
    [
      "where the package cannot be had",
      { exitCodes: { update: 100, install: 100 } },
      "ended with 100 (apt-get update before it with 100)",
    ],
    ["where there is no apt-get", { exitCodes: { update: 127, install: 127 } }, "ended with 127"],
    [
      "where the package brings another program",
      { brings: "/usr/bin/other" },
      "There is no program at /usr/bin/chromium",
    ],
    [
      "where the variable names nothing",
      { env: { CHROMIUM_PATH: "/nowhere" } },
      "There is no program at /nowhere (CHROMIUM_PATH)",
    ],
  ])("is a clear error %s", (_, given, message) => {
    const { made } = machine(given);
    const told = { ...made, userId: "userId" in given ? given.userId : 0 };
    expect(problemOf(() => ensureDebianPackage(WANTED, told))).toContain(message);
  });

  test("is not installed by who only uses it, who is told how it is", () => {
    const { made, ran } = machine({});
    expect(problemOf(() => programOf(WANTED, made))).toBe(
      "There is no program at /usr/bin/chromium: install Debian's package (apt-get install -y --no-install-recommends chromium, as root), or set CHROMIUM_PATH to the path of another chromium.",
    );
    expect(ran).toEqual([]);
  });
});
