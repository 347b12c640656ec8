/**
 * `npm run doctor`: whether what the environment configures works, seen from this machine; `npm run doctor -- URL`: whether a running hango does, seen from
 * its inside. One line for each check; ends with 1 where one has failed, with 2 where nothing could be checked.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { CheckResult } from "../turns/doctor/check.ts";
import { checkFromHere } from "./doctor/from-here.ts";
import { checkFromInside, NoReport } from "./doctor/from-inside.ts";
import { exitCodeOf, lineOf, verdict } from "./doctor/report.ts";

/** Longer than the checks, which have time-outs of their own. */
const TIMEOUT_MS = 20_000;

const LOOPBACK = new Set(["127.0.0.1", "localhost", "[::1]"]);

/** The key of the hango that `npm start` runs on this machine. */
const localKey = async (url: string): Promise<string | undefined> => {
  if (!LOOPBACK.has(URL.parse(url)?.hostname ?? "")) return undefined;
  const path = join(process.env.HANGO_DATA_DIR || ".hango", "credentials.json");
  const text = await readFile(path, "utf8").catch(() => "{}");
  const { adminKey } = JSON.parse(text) as { readonly adminKey?: string };
  return adminKey;
};

const fromInside = async (url: string): Promise<readonly CheckResult[]> => {
  const adminKey = process.env.HANGO_ADMIN_KEY || (await localKey(url));
  if (adminKey === undefined)
    throw new NoReport("HANGO_ADMIN_KEY is not set: the deployment tells only its operator how it is");
  return checkFromInside({ url, adminKey, fetch, timeoutMs: TIMEOUT_MS });
};

const main = async ([url, ...more]: readonly string[]): Promise<0 | 1 | 2> => {
  if (more.length > 0 || url?.startsWith("-")) {
    console.error("Usage: npm run doctor [-- https://hango.example.com]");
    return 2;
  }
  try {
    const results =
      url === undefined
        ? await checkFromHere({ env: process.env, fetch, now: () => performance.now() })
        : await fromInside(url);
    for (const result of results) console.log(lineOf(result));
    console.log(verdict(results));
    return exitCodeOf(results);
  } catch (error) {
    if (!(error instanceof NoReport)) throw error;
    console.error(error.message);
    return 2;
  }
};

process.exitCode = await main(process.argv.slice(2));
