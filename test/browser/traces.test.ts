/** The pages of traces and metrics of `npm start`, as a person goes through them. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { MODEL } from "../support/compaction.ts";
import { fitsWidth, openPage, PHONE, shoot, startBrowser, WIDE } from "./browser.ts";
import { type BrowsedPlatform, compactedTurn, startBrowsedPlatform } from "./platform.ts";

let browsed: BrowsedPlatform;
let browser: Browser;
let sessionId: string;
let tracesUrl: string;

interface Listed {
  readonly trace_id: string;
  readonly session_id: string | null;
  readonly compactions: readonly Readonly<Record<string, unknown>>[];
}

/** The compacted turn's trace, once it has arrived. */
const compactedTrace = (): Promise<Listed> =>
  vi.waitFor(
    async () => {
      const { traces } = (await (await fetch(`${tracesUrl}.json`)).json()) as { readonly traces: readonly Listed[] };
      const found = traces.find((trace) => trace.session_id === sessionId);
      if (found === undefined) throw new Error(`no trace of ${sessionId} among ${traces.length}`);
      return found;
    },
    { timeout: 10_000, interval: 100 },
  );

beforeAll(async () => {
  browsed = await startBrowsedPlatform();
  tracesUrl = browsed.platform.tracesUrl ?? "";
  browser = await startBrowser();
  sessionId = await compactedTurn(browsed.platform);
  await compactedTrace();
});
afterAll(async () => {
  await browser.close();
  await browsed.close();
});

it("shows a compacted turn: from the list to its waterfall, its spans and its event", async () => {
  const { page, troubles } = await openPage(browser, { viewport: WIDE, colorScheme: "light" });
  await page.goto(tracesUrl);
  await shoot(page, "traces");
  await page.locator(".traces a", { hasText: sessionId }).click();
  await shoot(page, "trace");
  console.log(await page.locator(".span > summary").allInnerTexts());
  for (const s of await page.locator(".span").all()) console.log(await s.getAttribute("id"), await s.locator("> summary .name").getAttribute("class"));
  await page.locator(".span > summary", { hasText: "invoke_agent" }).click();
  await page.locator(".span > summary", { hasText: "summariser" }).first().click();
  await shoot(page, "trace-open");
  await page.screenshot({path: "test-results/trace-full.png", fullPage: true});
  await page.getByRole("link", { name: "Metrics" }).click();
  await shoot(page, "metrics");
  await page.screenshot({path: "test-results/metrics-full.png", fullPage: true});
  expect(troubles).toEqual([]);
});
it("phone", async () => {
  const { page, troubles } = await openPage(browser, { viewport: PHONE, colorScheme: "dark" });
  await page.goto(tracesUrl);
  await shoot(page, "traces-phone");
  const a = await fitsWidth(page);
  await page.locator(".traces a", { hasText: sessionId }).click();
  await shoot(page, "trace-phone");
  const b = await fitsWidth(page);
  await page.locator(".span > summary", { hasText: "summariser" }).first().click();
  await page.screenshot({path: "test-results/trace-phone-full.png", fullPage: true});
  const b2 = await fitsWidth(page);
  await page.getByRole("link", { name: "Metrics" }).click();
  await shoot(page, "metrics-phone");
  const c = await fitsWidth(page);
  await page.goto(tracesUrl.replace("/_local/traces", "/docs"));
  await shoot(page, "docs-phone");
  const d = await fitsWidth(page);
  expect([a,b,b2,c,d, troubles]).toEqual([true,true,true,true,true, []]);
});
