/** Chromium for the tests of pages: every page is watched for what a person would find in its console. */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import { type Browser, chromium as chromiumType, type Locator, type Page } from "playwright-core";
import { expect } from "vitest";
import { chromium, programOf, thisMachine } from "../../src/local/debian-packages.ts";
import { PROJECT } from "../../src/local/steps.ts";

const SHOTS = join(PROJECT, "test-results");

export const WIDE = { width: 1280, height: 900 } as const;
export const PHONE = { width: 390, height: 844 } as const;

/** Starts the machine's chromium without a window. @throws MissingProgramError where it is not installed */
export const startBrowser = (): Promise<Browser> =>
  chromiumType.launch({
    executablePath: programOf(chromium, thisMachine),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

export interface WatchedPage {
  readonly page: Page;
  /** Errors of the console (what the policy forbids is among them), of scripts, and requests that failed or were refused. */
  readonly troubles: readonly string[];
}

export interface PageOptions {
  readonly viewport: { readonly width: number; readonly height: number };
  readonly colorScheme: "light" | "dark";
}

export const openPage = async (browser: Browser, { viewport, colorScheme }: PageOptions): Promise<WatchedPage> => {
  const context = await browser.newContext({ viewport, colorScheme, deviceScaleFactor: 1 });
  const page = await context.newPage();
  const troubles: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) troubles.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => troubles.push(`script: ${error.message}`));
  page.on("requestfailed", (request) => troubles.push(`request: ${request.url()} ${request.failure()?.errorText}`));
  page.on("response", (response) => {
    if (response.status() >= 400) troubles.push(`answer: ${response.url()} ${response.status()}`);
  });
  return { page, troubles };
};

interface Picture {
  readonly width: number;
  readonly height: number;
  /** How many different rows of pixels it has: a blank page has one. */
  readonly distinctRows: number;
}

const PNG_SIGNATURE = "89504e470d0a1a0a";

/** Reads what is needed of a PNG: its size, and whether there is anything to see on it. */
export const readPng = (bytes: Buffer): Picture => {
  if (bytes.subarray(0, 8).toString("hex") !== PNG_SIGNATURE) throw new Error("it is no PNG");
  const data: Buffer[] = [];
  for (let at = 8; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at);
    if (bytes.toString("latin1", at + 4, at + 8) === "IDAT") data.push(bytes.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  const pixels = inflateSync(Buffer.concat(data));
  const rowBytes = pixels.length / height;
  // Filtered rows: the rows of a page of one colour are the first one, and others that are all alike.
  const rows = new Set(
    Array.from({ length: height }, (_, row) => pixels.toString("latin1", row * rowBytes, (row + 1) * rowBytes)),
  );
  return { width, height, distinctRows: rows.size };
};

/** A page with text on it has far more. */
const BLANK_ROWS = 20;

/** Takes a picture of the window into `test-results/`, and checks that it shows something. @returns its path */
export const shoot = async (page: Page, name: string): Promise<string> => {
  await mkdir(SHOTS, { recursive: true });
  const path = join(SHOTS, `${name}.png`);
  await page.screenshot({ path });
  const { width, height, distinctRows } = readPng(await readFile(path));
  expect({ width, height }).toEqual(page.viewportSize());
  expect(distinctRows, `${name}.png is blank`).toBeGreaterThan(BLANK_ROWS);
  return path;
};

/** The text of an element as a person reads it, on one line. */
export const wordsOf = async (element: Locator): Promise<string> =>
  ((await element.textContent()) ?? "").replaceAll(/\s+/g, " ").trim();

/** Whether the page is no wider than its window: nothing to be moved sideways on a phone. */
export const fitsWidth = (page: Page): Promise<boolean> =>
  // In the page, `document` is there; the project's types are a Worker's.
  page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth");
