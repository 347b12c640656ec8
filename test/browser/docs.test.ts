/** `/docs`, as a person goes through it. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fitsWidth, openPage, PHONE, shoot, startBrowser, WIDE, wordsOf } from "./browser.ts";
import { type BrowsedPlatform, NO_SUCH_PATH, startBrowsedPlatform } from "./platform.ts";

let browsed: BrowsedPlatform;
let browser: Browser;

beforeAll(async () => {
  browsed = await startBrowsedPlatform({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" });
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await browsed?.close();
});

/** Where the thing that the address names begins in the window, in px from its top. */
const targetTop = (page: Page): Promise<unknown> =>
  page.evaluate("document.querySelector(':target')?.getBoundingClientRect().top");

const expectLanded = async (page: Page): Promise<void> => {
  const top = await targetTop(page);
  expect(top).toBeGreaterThanOrEqual(-1);
  expect(top).toBeLessThan(60);
};

it("leads to an operation and to the objects, and no link of the page leads nowhere", async () => {
  const { page, troubles } = await openPage(browser, { viewport: WIDE, colorScheme: "light" });
  await page.goto(`${browsed.platform.url}/docs`);
  await shoot(page, "docs");

  await page.getByRole("navigation").getByRole("link", { name: "Run a turn" }).click();
  await expectLanded(page);
  expect(await wordsOf(page.locator(":target h3"))).toBe("POST /v1/sessions/{id}/turns");
  await shoot(page, "docs-operation");

  await page.getByRole("navigation").getByRole("link", { name: "Objects" }).click();
  await expectLanded(page);
  expect(await wordsOf(page.locator(":target > h2"))).toBe("Objects");
  await shoot(page, "docs-objects");

  const leadNowhere = await page.evaluate(
    "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.hash.slice(1)).filter((id) => !document.getElementById(decodeURIComponent(id)))",
  );
  expect(leadNowhere).toEqual([]);
  expect(troubles).toEqual([]);
  await page.context().close();
});

it("fits a phone, and is dark where that is asked for", async () => {
  const { page, troubles } = await openPage(browser, { viewport: PHONE, colorScheme: "dark" });
  await page.goto(`${browsed.platform.url}/docs`);
  await shoot(page, "docs-phone");
  expect(await fitsWidth(page)).toBe(true);
  const navigation = page.getByRole("navigation");
  await navigation.getByRole("link", { name: "Run a turn" }).click();
  await expectLanded(page);
  expect(await wordsOf(page.locator(":target h3"))).toBe("POST /v1/sessions/{id}/turns");
  await shoot(page, "docs-operation-phone");
  await navigation.getByRole("link", { name: "Objects" }).click();
  await expectLanded(page);
  expect(await wordsOf(page.locator(":target > h2"))).toBe("Objects");
  await shoot(page, "docs-objects-phone");
  expect(troubles).toEqual([]);
  await page.context().close();
});

it("is without pages of traces where a collector is configured: the Worker answers", async () => {
  const { url, tracesUrl } = browsed.platform;
  expect(tracesUrl).toBe(undefined);
  const response = await fetch(`${url}/_local/traces`);
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ error: { message: NO_SUCH_PATH } });
});
