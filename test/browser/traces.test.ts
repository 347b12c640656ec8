/** The pages of traces and metrics of `npm start`, as a person goes through them. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { MODEL } from "../support/compaction.ts";
import { fitsWidth, openPage, PHONE, shoot, startBrowser, WIDE, wordsOf } from "./browser.ts";
import { type BrowsedPlatform, compactedTurn, NO_SUCH_PATH, startBrowsedPlatform } from "./platform.ts";

let browsed: BrowsedPlatform;
let browser: Browser;
let sessionId: string;
let tracesUrl: string;

interface Listed {
  readonly session_id: string | null;
  readonly compactions: readonly Readonly<Record<string, unknown>>[];
}

const read = async (url: string): Promise<Readonly<Record<string, unknown>>> => (await fetch(url)).json();

/** The compacted turn in the list, once its spans have arrived. */
const compactedTrace = (): Promise<Listed> =>
  vi.waitFor(
    async () => {
      const { traces } = (await read(`${tracesUrl}.json`)) as { readonly traces: readonly Listed[] };
      const found = traces.find((trace) => trace.session_id === sessionId);
      if (found === undefined) throw new Error(`no trace of ${sessionId} among ${traces.length}`);
      return found;
    },
    { timeout: 10_000, interval: 100 },
  );

/** Metrics are sent apart from spans. */
const compactionsCounted = (): Promise<void> =>
  vi.waitFor(
    async () => expect(JSON.stringify(await read(`${metricsUrl()}.json`))).toContain("hango.context.compactions"),
    { timeout: 10_000, interval: 100 },
  );

const metricsUrl = (): string => tracesUrl.replace("/traces", "/metrics");

/** What the pages are like at first: looked at before the turn that the tests are about. */
const seeTheHint = async (): Promise<void> => {
  const { page, troubles } = await openPage(browser, { viewport: PHONE, colorScheme: "light" });
  await page.goto(tracesUrl);
  expect(await wordsOf(page.locator(".empty").first())).toContain(
    `curl -N ${browsed.platform.url}/v1/sessions/key:demo/turns`,
  );
  await shoot(page, "traces-first-phone");
  expect(await fitsWidth(page)).toBe(true);
  expect(troubles).toEqual([]);
  await page.context().close();
};

beforeAll(async () => {
  browsed = await startBrowsedPlatform();
  tracesUrl = browsed.platform.tracesUrl ?? "";
  browser = await startBrowser();
  await seeTheHint();
  sessionId = await compactedTurn(browsed.platform);
  await compactedTrace();
  await compactionsCounted();
});
afterAll(async () => {
  await browser?.close();
  await browsed?.close();
});

const span = (page: Page, text: string) =>
  page.locator(".span").filter({ has: page.locator("summary", { hasText: text }) });

/** What each row says before it is opened, its name and badges, below the rows that it is under: read off how far in each one is. */
const pathsOf = async (page: Page): Promise<readonly (readonly string[])[]> => {
  const paths: (readonly string[])[] = [];
  let above: readonly string[] = [];
  for (const name of await page.locator(".span > summary > .name").all()) {
    const depth = Number(/\bd(\d+)\b/.exec((await name.getAttribute("class")) ?? "")?.[1]);
    above = [...above.slice(0, depth), await wordsOf(name)];
    paths.push(above);
  }
  return paths;
};

const grouped = (value: unknown): string => Number(value).toLocaleString("en-US");

it("leads from the list to a compacted turn's waterfall, its opened spans, the metrics, and back", async () => {
  const { page, troubles } = await openPage(browser, { viewport: WIDE, colorScheme: "light" });
  const [compaction = {}] = (await compactedTrace()).compactions;
  const sizes = `${grouped(compaction["tokens_before"])} → ${grouped(compaction["tokens_after"])} tokens`;

  await page.goto(tracesUrl);
  const listed = page.locator(".traces a", { hasText: sessionId });
  expect(await wordsOf(listed.locator(".name"))).toBe("POST /v1/sessions/{id}/turns");
  expect(await listed.locator(".badge").allInnerTexts()).toEqual(["200", `compacted ${sizes}`]);
  await shoot(page, "traces");

  await page.getByRole("link", { name: /^Compacted/ }).click();
  expect(await page.locator(".traces li").count()).toBe(1);
  await page.locator(".traces a").click();
  expect(await wordsOf(page.locator(".compaction strong"))).toBe(`The context was compacted: ${sizes}`);
  expect(await wordsOf(page.locator(".compaction"))).toContain(`/conversation_history/${sessionId}.md`);

  const server = "POST /v1/sessions/{id}/turns";
  const agent = `invoke_agent hango compacted ${sizes}`;
  const paths = await pathsOf(page);
  for (const path of [
    [server],
    [server, agent],
    [server, agent, `chat ${MODEL} summariser`],
    [server, agent, `chat ${MODEL} sees the compacted context`],
    [server, agent, `chat ${MODEL}`],
    [server, agent, "execute_tool write_file"],
  ])
    expect(paths).toContainEqual(path);
  // The row of the turn has the event where it happened, in the summary's colour.
  expect(await span(page, "invoke_agent").locator(".mark.compacted").count()).toBe(1);
  await shoot(page, "trace");

  const turn = span(page, "invoke_agent");
  expect(await turn.locator(".details").isVisible()).toBe(false);
  await turn.locator("summary").click();
  expect(await wordsOf(turn.locator(".details h3"))).toContain("gen_ai.conversation.compacted");
  expect(await wordsOf(turn.locator("tr", { hasText: "hango.compaction.reason" }))).toContain("threshold");
  const summary = span(page, "summariser").first();
  await summary.locator("summary").click();
  expect(await wordsOf(summary.locator("tr", { hasText: "hango.call.purpose" }))).toContain("summarize");
  await shoot(page, "trace-opened");

  await page.getByRole("link", { name: "Metrics" }).click();
  const counter = page.locator("section", { hasText: "hango.context.compactions" });
  expect((await counter.locator("tbody td").allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "))).toEqual([
    "outcome committed reason threshold",
    "1 compaction",
  ]);
  const durations = page.locator("section", { hasText: "hango.turn.duration" });
  expect(await wordsOf(durations.locator("tbody td").nth(2))).toMatch(/^[\d.]+ m?s$/);
  await shoot(page, "metrics");

  await page.getByRole("link", { name: "Traces" }).click();
  await listed.waitFor();
  expect(troubles).toEqual([]);
  await page.context().close();
});

it("fits a phone, and is dark where that is asked for", async () => {
  const { page, troubles } = await openPage(browser, { viewport: PHONE, colorScheme: "dark" });
  const fits: Record<string, boolean> = {};
  const look = async (name: string): Promise<void> => {
    await shoot(page, `${name}-phone`);
    fits[name] = await fitsWidth(page);
  };
  await page.goto(tracesUrl);
  await look("traces");
  await page.locator(".traces a", { hasText: sessionId }).click();
  await look("trace");
  await span(page, "summariser").first().locator("summary").click();
  await look("trace-opened");
  await page.getByRole("link", { name: "Metrics" }).click();
  await look("metrics");
  expect(fits).toEqual({ traces: true, trace: true, "trace-opened": true, metrics: true });
  expect(troubles).toEqual([]);
  await page.context().close();
});

it("lets a request with another name for this machine see nothing, and leaves other paths to the Worker", async () => {
  const { url } = browsed.platform;
  // `fetch` sets the header itself; the Worker's entry reads the address of an absolute request line in the same way.
  const { request } = await import("node:http");
  const statusFor = (path: string, host: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const { port } = new URL(url);
      request({ port, host: "127.0.0.1", path, headers: { Host: host } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on("error", reject)
        .end();
    });
  expect(await statusFor("/_local/traces", "rebound.example.test")).toBe(403);
  expect(await statusFor("/_local/traces", "localhost")).toBe(200);
  expect(await (await fetch(`${url}/_local`)).json()).toMatchObject({ error: { message: NO_SUCH_PATH } });
});
