/** The report as a command: reads the API of a running hango, writes nothing. */
import { parseArgs } from "node:util";
import { z } from "zod";
import { type ReportedSession, renderReport } from "./report.ts";

const USAGE = `Usage: npm run micro-report -- [--url URL] [--session ID]

What micro-compaction has brought: how full the sessions are, how many batch compactions it saved them, and tokens, in this order.
Reads GET /v1/sessions/{id}/context with the key in HANGO_API_KEY (scope read).

  --url URL      where hango runs (default http://localhost:8787)
  --session ID   one session, by its id or key:NAME (default: all of the tenant)`;

export interface ReportCommandOptions {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly say: (text: string) => void;
  readonly fetch: typeof fetch;
}

class ReportFailed extends Error {}

const page = z.object({ data: z.array(z.object({ id: z.string() })), next_page: z.string().nullable() });

const context = z.object({
  session_id: z.string(),
  micro_compaction: z.object({
    occupancy: z.number().nullable(),
    batch_compactions_avoided: z.number().nullable(),
    batch_compactions: z.number(),
    passes: z.number(),
    tokens_saved: z.number(),
    enabled: z.boolean(),
  }),
});

const failure = z.object({ error: z.object({ message: z.string() }) });

const reader =
  (options: ReportCommandOptions, url: string, key: string) =>
  async (path: string): Promise<unknown> => {
    const response = await options
      .fetch(`${url}${path}`, { headers: { Authorization: `Bearer ${key}` } })
      .catch(() => undefined);
    if (response === undefined) throw new ReportFailed(`nothing answers at ${url}`);
    const body: unknown = await response.json().catch(() => undefined);
    if (response.ok) return body;
    const said = failure.safeParse(body);
    throw new ReportFailed(
      `GET ${path} answered ${response.status}${said.success ? `: ${said.data.error.message}` : ""}`,
    );
  };

async function* sessionIds(read: (path: string) => Promise<unknown>): AsyncGenerator<string> {
  for (let next: string | null = ""; next !== null; ) {
    const query: string = next === "" ? "" : `&page=${encodeURIComponent(next)}`;
    const { data, next_page } = page.parse(await read(`/v1/sessions?limit=100${query}`));
    for (const { id } of data) yield id;
    next = next_page;
  }
}

const reported = async (read: (path: string) => Promise<unknown>, id: string): Promise<ReportedSession> => {
  const { session_id, micro_compaction: micro } = context.parse(
    await read(`/v1/sessions/${encodeURIComponent(id)}/context`),
  );
  return {
    id: session_id,
    enabled: micro.enabled,
    occupancy: micro.occupancy,
    avoided: micro.batch_compactions_avoided,
    batch: micro.batch_compactions,
    passes: micro.passes,
    tokensSaved: micro.tokens_saved,
  };
};

/** @returns the exit code */
export const runMicroReport = async (options: ReportCommandOptions): Promise<number> => {
  let given: { url: string; session: string | undefined; help: boolean };
  try {
    const { values } = parseArgs({
      args: [...options.args],
      options: {
        url: { type: "string", default: "http://localhost:8787" },
        session: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    given = { ...values, session: values.session };
  } catch (error) {
    options.say(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}\n`);
    return 2;
  }
  if (given.help) {
    options.out(`${USAGE}\n`);
    return 0;
  }
  const key = options.env["HANGO_API_KEY"];
  if (key === undefined || key === "") {
    options.say("HANGO_API_KEY is not set: the key of a tenant, with the scope read. `npm start` prints one.\n");
    return 2;
  }
  const read = reader(options, given.url.replace(/\/+$/, ""), key);
  try {
    const sessions: ReportedSession[] = [];
    if (given.session !== undefined) sessions.push(await reported(read, given.session));
    else for await (const id of sessionIds(read)) sessions.push(await reported(read, id));
    options.out(renderReport(sessions));
    return 0;
  } catch (error) {
    if (!(error instanceof ReportFailed)) throw error;
    options.say(`${error.message}\n`);
    return 1;
  }
};
