/** The import arrows of the design, proved with a tree in which every room imports every other. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const PROJECT = join(import.meta.dirname, "../../..");

/** Who may import whom. `protocol` and `telemetry` are open to all. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  api: ["turns", "webhooks", "store"],
  turns: ["agent", "store", "context", "models", "files"],
  agent: ["context", "models", "files"],
  webhooks: ["turns", "store"],
  context: [],
  models: [],
  files: [],
  store: [],
  protocol: [],
  telemetry: [],
  local: ["api", "turns", "agent", "webhooks", "context", "models", "files", "store"],
};
const OPEN = ["protocol", "telemetry"];
const DOOR = ["api", "turns", "webhooks", "store", ...OPEN];
const rooms = Object.keys(ARROWS);

interface Diagnostic {
  readonly category: string;
  readonly location: { readonly path: string };
}

let root: string;
let found: readonly string[];

const lint = async (): Promise<readonly string[]> => {
  const biome = join(PROJECT, "node_modules/.bin/biome");
  const child = spawn(process.execPath, [biome, "lint", "--reporter=json", "--max-diagnostics=none", "src"], {
    cwd: root,
  });
  let output = "";
  child.stdout.on("data", (data: Buffer) => {
    output += data.toString();
  });
  await once(child, "close");
  const { diagnostics } = JSON.parse(output.slice(output.indexOf("{"))) as { diagnostics: readonly Diagnostic[] };
  return diagnostics.map(({ category, location }) => `${category.split("/").at(-1)} ${location.path}`).sort();
};

const write = async (path: string, text: string) => {
  await mkdir(join(root, path, ".."), { recursive: true });
  await writeFile(join(root, path), text);
};

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hango-arrows-"));
  const { vcs: _vcs, $schema: _schema, ...config } = JSON.parse(await readFile(join(PROJECT, "biome.json"), "utf8"));
  await write("biome.json", JSON.stringify(config));
  await write("package.json", "{}");
  for (const from of rooms) {
    await write(`src/${from}/thing.ts`, "export type Thing = string;\n");
    for (const to of rooms)
      if (to !== from)
        await write(`src/${from}/deep/to-${to}.ts`, `export type { Thing } from "../../${to}/thing.ts";\n`);
    await write(`src/${from}/to-config.ts`, 'export type { Config } from "../config.ts";\n');
  }
  await write(
    "src/config.ts",
    `${rooms.map((room) => `export type { Thing as T${room} } from "./${room}/thing.ts";`).join("\n")}\nexport type Config = string;\n`,
  );
  await write(
    "src/worker.ts",
    `${rooms.map((room) => `export type { Thing as T${room} } from "./${room}/thing.ts";`).join("\n")}\n`,
  );
  await write("src/files/one.ts", 'export type { Two } from "./two.ts";\nexport type One = string;\n');
  await write("src/files/two.ts", 'export type { One } from "./one.ts";\nexport type Two = string;\n');
  await write("src/store/node.ts", 'export { readFile } from "node:fs";\n');
  await write("src/local/node.ts", 'export { readFile } from "node:fs";\n');
  found = await lint();
});

afterAll(() => rm(root, { recursive: true, force: true }));

describe("the lint rules", () => {
  test("let a room import exactly the rooms that the arrows allow, types included", () => {
    const forbidden = rooms.flatMap((from) =>
      rooms
        .filter((to) => to !== from && !OPEN.includes(to) && !(ARROWS[from] ?? []).includes(to))
        .map((to) => `src/${from}/deep/to-${to}.ts`),
    );
    const reported = found.filter((line) => line.includes("/deep/"));
    expect(reported).toEqual(forbidden.map((path) => `noRestrictedImports ${path}`).sort());
    expect(forbidden).toHaveLength(69);
  });

  test("keep config.ts away from the rooms, and the open rooms away from config.ts", () => {
    expect(found.filter((line) => line.includes("to-config"))).toEqual([
      "noRestrictedImports src/protocol/to-config.ts",
      "noRestrictedImports src/telemetry/to-config.ts",
    ]);
    expect(found.filter((line) => line === "noRestrictedImports src/config.ts")).toHaveLength(rooms.length - 1);
  });

  test("let the door only wire", () => {
    expect(found.filter((line) => line === "noRestrictedImports src/worker.ts")).toHaveLength(
      rooms.length - DOOR.length,
    );
  });

  test("find a cycle, of types as well", () => {
    expect(found.filter((line) => line.startsWith("noImportCycles src/files"))).toEqual([
      "noImportCycles src/files/one.ts",
      "noImportCycles src/files/two.ts",
    ]);
  });

  test("keep Node out of the Worker", () => {
    expect(found.filter((line) => line.endsWith("node.ts"))).toEqual(["noRestrictedImports src/store/node.ts"]);
  });

  test("know every room there is", async () => {
    const entries = await readdir(join(PROJECT, "src"), { withFileTypes: true });
    const there = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
    expect(there.filter((room) => !rooms.includes(room))).toEqual([]);
  });
});
