/** That the watch over pages sees what it is there for: a test of a page that cannot fail holds nothing. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createMetricStore } from "../../src/local/collector/metric-store.ts";
import { createPages } from "../../src/local/collector/pages.ts";
import { createSpanStore } from "../../src/local/collector/span-store.ts";
import { startReceiver } from "../support/receiver.ts";
import { fitsWidth, openPage, PHONE, readPng, startBrowser } from "./browser.ts";

let browser: Browser;
let server: Awaited<ReturnType<typeof startReceiver>>;

beforeAll(async () => {
  browser = await startBrowser();
  const spans = createSpanStore({ maxTraces: 1, maxSpans: 1, maxBytes: 1 });
  const answer = createPages({ spans, metrics: createMetricStore(1), timeZone: "UTC" });
  server = await startReceiver(async (request, _, response) => {
    const { host } = request.headers;
    const { status, headers, body } = await answer({
      method: request.method ?? "",
      url: new URL(request.url ?? "/", server.url),
      host,
    });
    response.writeHead(status, { ...headers }).end(body);
  });
});
afterAll(async () => {
  await browser?.close();
  server?.close();
});

it("sees what a policy forbids, an error of a script, an answer that is no success, and a page that is too wide", async () => {
  const { page, troubles } = await openPage(browser, { viewport: PHONE, colorScheme: "light" });
  await page.goto(`${server.url}/_local/traces`);
  expect([troubles, await fitsWidth(page)]).toEqual([[], true]);
  await page.evaluate("document.body.setAttribute('style', 'color: red')");
  await expect.poll(() => troubles).toEqual([expect.stringContaining("Content Security Policy")]);
  await page.evaluate("setTimeout(() => { throw new Error('broken'); })");
  await expect.poll(() => troubles).toContain("script: broken");
  await page.evaluate(
    "document.body.append(Object.assign(document.createElement('p'), { innerText: 'x'.repeat(500) }))",
  );
  expect(await fitsWidth(page)).toBe(false);
  await page.goto(`${server.url}/_local/nothing`);
  expect(troubles).toContain(`answer: ${server.url}/_local/nothing 404`);
  await page.context().close();
});

it("tells a blank picture from one of a page", async () => {
  const { page } = await openPage(browser, { viewport: PHONE, colorScheme: "light" });
  const blank = readPng(await page.screenshot());
  await page.goto(`${server.url}/_local/traces`);
  const shown = readPng(await page.screenshot());
  expect([blank.width, blank.height]).toEqual([PHONE.width, PHONE.height]);
  expect(blank.distinctRows).toBeLessThan(5);
  expect(shown.distinctRows).toBeGreaterThan(100);
  await page.context().close();
});
