/** Many sessions at once against the platform of `npm start`, on a real PostgreSQL: no error, no message lost or doubled, and how fast. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPlatform } from "../platform.ts";
import { startPostgres } from "../postgres.ts";
import { randomSecret } from "../secret.ts";
import { driveLoad, type LoadSize } from "./load-drive.ts";
import { loadTable } from "./load-figures.ts";

const SIZE: LoadSize = { sessions: 200, turns: 10, atOnce: 20 };

const SHOWN_FAULTS = 20;

/** The size that is asked for: sessions, turns and how many at once, as `HANGO_BENCH_LOAD=200,10,20`. */
const askedSize = (given: string | undefined): LoadSize => {
  if (given === undefined || given === "") return SIZE;
  const [sessions = 0, turns = 0, atOnce = 0] = given.split(",").map(Number);
  if (![sessions, turns, atOnce].every((value) => Number.isInteger(value) && value > 0))
    throw new Error(
      `HANGO_BENCH_LOAD is ${given}; it should be three whole numbers: sessions, turns of each, and how many at once`,
    );
  return { sessions, turns, atOnce };
};

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const say = (text: string): void => void process.stderr.write(`bench: ${text}\n`);

const make = async (url: string, key: string, body: object): Promise<Readonly<Record<string, string>>> => {
  const response = await fetch(url, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Connection: "close" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return response.json();
};

/** Measures and prints. Takes about two minutes on two cores. @returns whether there was no error, and every log is as it must be */
export const benchLoad = async (): Promise<boolean> => {
  const size = askedSize(process.env.HANGO_BENCH_LOAD);
  const dataDir = await mkdtemp(join(tmpdir(), "hango-load-"));
  const postgres = await startPostgres({ durable: true, maxConnections: 50 });
  try {
    const adminKey = randomSecret(32);
    const platform = await startPlatform({
      port: 0,
      dataDir,
      env: { DATABASE_URL: postgres.urlOf("postgres"), HANGO_ADMIN_KEY: adminKey },
      onLog: (line) => {
        if (/"level":"(error|fatal)"/.test(line)) process.stderr.write(`${line}\n`);
      },
      onProgress: say,
    });
    try {
      const { url, simulator } = platform;
      if (simulator === undefined) throw new Error("the load is for the simulator alone");
      const { id: tenantId } = await make(`${url}/v1/tenants`, adminKey, { name: "load" });
      say(`${size.sessions} sessions, ${size.turns} turns each, ${size.atOnce} at once`);
      const { turns, tookMs, faults } = await driveLoad(
        {
          url,
          requests: simulator.requests,
          keyOf: async (session) =>
            (await make(`${url}/v1/keys`, adminKey, { tenant_id: tenantId, name: `load ${session}` })).secret ?? "",
        },
        size,
      );
      print(
        `\nLoad: ${size.sessions} sessions, ${size.turns} turns each, a third of them with a tool, ${size.atOnce} at once\n`,
      );
      print(loadTable(turns, tookMs));
      print(
        faults.length === 0
          ? "\nNo error, and every message once and in order."
          : `\n${faults.length} faults:\n${faults.slice(0, SHOWN_FAULTS).join("\n")}`,
      );
      return faults.length === 0;
    } finally {
      await platform.close();
    }
  } finally {
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
};
