/** Rules of the pages: each command is run by a test or marked with why not, each link leads somewhere, and each page can be found. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, normalize, relative } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import {
  allPages,
  blocksIn,
  COMMAND_LANGUAGES,
  REASONS_NOT_TO_RUN,
  ROOT,
  RUN_PAGES,
  readPage,
} from "../support/pages.ts";

/** Every page by its path from the top. */
const pages = new Map<string, string>();

beforeAll(async () => {
  for (const page of await allPages()) pages.set(page, await readPage(page));
});

/** What is wrong with a page's commands. */
const problemsIn = (page: string, markdown: string): readonly string[] =>
  blocksIn(markdown)
    .filter(({ language }) => COMMAND_LANGUAGES.includes(language))
    .flatMap(({ notRun, line, language }) => {
      if (notRun === null)
        return RUN_PAGES[page]?.languages.includes(language)
          ? []
          : [`${page}:${line} is not run, and does not say why`];
      return REASONS_NOT_TO_RUN.includes(notRun) ? [] : [`${page}:${line} gives a reason that is none: ${notRun}`];
    });

describe("a command on a page", () => {
  it("is run, or says why not", () => {
    expect([...pages].flatMap(([page, markdown]) => problemsIn(page, markdown))).toEqual([]);
  });

  it("is seen by these rules, wherever it stands and however it is fenced", () => {
    const page = (block: string) => problemsIn("docs/new.md", `# New\n\n${block}\n`);
    expect(page("```sh\nnpm start\n```")).toEqual(["docs/new.md:3 is not run, and does not say why"]);
    for (const block of [
      "````ts\nawait f();\n````",
      "~~~bash\nls\n~~~",
      "- Item:\n\n  ```sh\n  ls\n  ```",
      "> ```shell\n> ls\n> ```",
    ])
      expect([block, page(block).length]).toEqual([block, 1]);
    expect(problemsIn("docs/memory.md", "```bash\nls\n```\n")).toHaveLength(1);
    expect(page("<!-- not run: because -->\n```sh\nnpm start\n```")).toEqual([
      "docs/new.md:3 gives a reason that is none: because",
    ]);
    expect(page(`<!-- not run: ${REASONS_NOT_TO_RUN[0]} -->\n\`\`\`sh\nnpx wrangler login\n\`\`\``)).toEqual([]);
    expect(page("```json\n{}\n```")).toEqual([]);
  });

  it("is run by the test that is said to", async () => {
    for (const [page, { languages, test }] of Object.entries(RUN_PAGES)) {
      expect(pages.has(page), page).toBe(true);
      expect(await readFile(join(ROOT, test), "utf8"), test).toContain(`"${page}"`);
      const run = blocksIn(pages.get(page) ?? "").filter(({ notRun }) => notRun === null);
      for (const each of languages) expect([page, run.some(({ language }) => language === each)]).toEqual([page, true]);
    }
  });

  it("of npm names a script that there is", async () => {
    const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
    for (const [page, markdown] of pages)
      for (const [, name = ""] of markdown.matchAll(/npm run ([a-z][\w:-]*)/g))
        expect(scripts, `${page}: npm run ${name}`).toHaveProperty(name);
  });

  it("is left out for a reason that some page gives", () => {
    const given = new Set([...pages.values()].flatMap((markdown) => blocksIn(markdown).map(({ notRun }) => notRun)));
    for (const reason of REASONS_NOT_TO_RUN) expect([reason, given.has(reason)]).toEqual([reason, true]);
  });
});

/** As GitHub makes the anchor of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");

const withoutBlocks = (markdown: string): string => markdown.replaceAll(/^(`{3,})[\s\S]*?^\1$/gm, "");

const anchorsOf = (markdown: string): ReadonlySet<string> => {
  const seen = new Map<string, number>();
  const headings = [...withoutBlocks(markdown).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = ""]) => {
    const anchor = anchorOf(heading.replaceAll("`", ""));
    const before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
  const named = [...markdown.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, name = ""]) => name);
  return new Set([...headings, ...named]);
};

/** Links of a page to other places of the project, as written. */
const linksOf = (markdown: string): readonly string[] =>
  [...withoutBlocks(markdown).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = ""]) => target)
    .filter((target) => !/^[a-z]+:/.test(target));

const targetOf = (page: string, link: string): { readonly path: string; readonly anchor: string | undefined } => {
  const [path = "", anchor] = link.split("#");
  return { path: path === "" ? page : normalize(join(dirname(page), path)), anchor };
};

describe("a link of a page", () => {
  it("leads to a file that there is, and to a heading of it", () => {
    const broken = [...pages].flatMap(([page, markdown]) =>
      linksOf(markdown)
        .filter((link) => {
          const { path, anchor } = targetOf(page, link);
          if (!existsSync(join(ROOT, path))) return true;
          const target = pages.get(path);
          return anchor !== undefined && target !== undefined && !anchorsOf(target).has(anchor);
        })
        .map((link) => `${page}: ${link}`),
    );
    expect(broken).toEqual([]);
  });

  it("from the README leads, over others, to every page", () => {
    const found = new Set<string>();
    const visit = (page: string): void => {
      if (found.has(page)) return;
      found.add(page);
      for (const link of linksOf(pages.get(page) ?? "")) {
        const { path } = targetOf(page, link);
        if (pages.has(path)) visit(path);
        // A link to a folder shows what is in it.
        else for (const inside of pages.keys()) if (!relative(path, inside).startsWith("..")) visit(inside);
      }
    };
    visit("README.md");
    expect([...pages.keys()].filter((page) => page !== "CHANGELOG.md" && !found.has(page))).toEqual([]);
  });
});
