/** Makes sure once, before the tests of pages, that there is a browser: they fail where there can be none, and are never skipped. */
import { chromium, ensureDebianPackage, thisMachine } from "../../src/local/debian-packages.ts";

export const setup = (): void => void ensureDebianPackage(chromium, thisMachine);
