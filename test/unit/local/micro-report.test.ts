import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runMicroReport } from "../../../src/local/micro-report/command.ts";
import { type ReportedSession, renderReport } from "../../../src/local/micro-report/report.ts";

const session = (changes: Partial<ReportedSession> = {}): ReportedSession => ({
  id: "ses_1",
  enabled: true,
  occupancy: 0.25,
  avoided: 2,
  batch: 1,
  passes: 3,
  tokensSaved: 12_345,
  ...changes,
});

describe("the report of micro-compaction (section 11)", () => {
  it("says occupancy first, then batch compactions avoided, then tokens", () => {
    const text = renderReport([
      session(),
      session({ id: "ses_22", occupancy: 0.5, avoided: 0, passes: 1, tokensSaved: -20 }),
    ]);
    expect(text.split("\n")).toEqual([
      "Occupancy: 0.375 of the trigger (mean of 2 sessions), at most 0.500",
      "Batch compactions avoided: about 2; 2 happened",
      "Tokens: 12,325 less in view, by 4 passes",
      "",
      "session  occupancy  avoided  batch  tokens saved  passes   on",
      "ses_1        0.250        2      1        12,345       3  yes",
      "ses_22       0.500        0      1           -20       1  yes",
      "",
    ]);
  });

  it("says unknown where a window is not known, and nothing of sessions that never had it", () => {
    const text = renderReport([
      session({ occupancy: null, avoided: null, passes: 1 }),
      session({ enabled: false, passes: 0 }),
    ]);
    expect(text).toContain("Occupancy: unknown");
    expect(text).toContain("Batch compactions avoided: unknown; 1 happened");
    expect(text).toContain("by 1 pass\n");
    expect(text.match(/^ses_/gm)).toHaveLength(1);
    expect(renderReport([session({ enabled: false, passes: 0 })])).toMatch(
      /^No micro-compaction: it is off in 1 session/,
    );
  });

  it("is plain ASCII, whatever a session is called: it is read on any console", () => {
    expect(renderReport([session({ id: "ses_\u00e9\u2192\ud83d\ude00" })])).toMatch(/^[\n\x20-\x7e]*$/);
  });
});

describe("npm run micro-report", () => {
  let server: Server;
  let url: string;
  const asked: string[] = [];
  const micro = {
    occupancy: 0.1,
    batch_compactions_avoided: 1,
    batch_compactions: 0,
    passes: 5,
    tokens_saved: 900,
    enabled: true,
  };

  beforeAll(async () => {
    server = createServer((request, response) => {
      asked.push(`${request.headers.authorization} ${request.url}`);
      const path = request.url ?? "";
      const answer = (status: number, body: object) => {
        response.writeHead(status, { "Content-Type": "application/json" });
        response.end(JSON.stringify(body));
      };
      if (path.startsWith("/v1/sessions?limit=100&page=two")) answer(200, { data: [{ id: "ses_b" }], next_page: null });
      else if (path.startsWith("/v1/sessions?")) answer(200, { data: [{ id: "ses_a" }], next_page: "two" });
      else if (path.includes("nobody")) answer(404, { error: { message: "There is no such session." } });
      else answer(200, { session_id: path.split("/")[3], micro_compaction: micro });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  const run = async (args: readonly string[], env: Record<string, string> = { HANGO_API_KEY: "hango_k" }) => {
    asked.length = 0;
    const [out, said]: [string[], string[]] = [[], []];
    const code = await runMicroReport({
      args,
      env,
      out: (text) => out.push(text),
      say: (text) => said.push(text),
      fetch,
    });
    return { code, out: out.join(""), said: said.join("") };
  };

  it("reads all sessions of a tenant, page by page, or one", async () => {
    const all = await run(["--url", `${url}/`]);
    expect([all.code, all.out.match(/^ses_\w/gm)]).toEqual([0, ["ses_a", "ses_b"]]);
    expect(all.out).toMatch(/^Occupancy: 0\.100 of the trigger/);
    const one = await run(["--url", url, "--session", "key:mine"]);
    expect([one.code, asked]).toEqual([0, ["Bearer hango_k /v1/sessions/key%3Amine/context"]]);
  });

  it("says what is wrong, and never the key", async () => {
    expect(await run(["--url", url, "--session", "nobody"])).toEqual({
      code: 1,
      out: "",
      said: "GET /v1/sessions/nobody/context answered 404: There is no such session.\n",
    });
    expect(await run(["--url", url], {})).toMatchObject({
      code: 2,
      said: expect.stringContaining("HANGO_API_KEY is not set"),
    });
    expect(await run(["--sessions"])).toMatchObject({
      code: 2,
      said: expect.stringContaining("Usage: npm run micro-report"),
    });
    expect(await run(["--url", "http://127.0.0.1:1"])).toEqual({
      code: 1,
      out: "",
      said: "nothing answers at http://127.0.0.1:1\n",
    });
  });
});
