/** Writes `docs/configuration.md` from the schemas; with `--check` says whether it is what they say. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { z } from "zod";
import { variables } from "../config.ts";
import { runnerVariables } from "./settings.ts";

const PATH = join(import.meta.dirname, "../../docs/configuration.md");

type Fields = Readonly<Record<string, z.ZodType>>;

/** A cell of a table: a bar would end it. */
const cell = (text: string): string => text.replaceAll("|", "\\|");

const row = (name: string, field: z.ZodType): string => {
  const meta = field.meta();
  const fallback = meta?.default;
  const required = field.safeParse(undefined).success ? "none" : "**required**";
  const shown = typeof fallback === "string" ? `\`${fallback}\`` : required;
  const secret = meta?.secret === true ? " Secret." : "";
  return `| \`${name}\` | ${shown} | ${cell(String(meta?.allowed))} | ${cell(String(meta?.description))}${secret} |`;
};

const table = (fields: Fields, kind: string): string =>
  [
    "| name | default | allowed | what it is |",
    "| --- | --- | --- | --- |",
    ...Object.entries(fields)
      .filter(([, field]) => field.meta()?.kind === kind)
      .map(([name, field]) => row(name, field)),
  ].join("\n");

/** The whole page. */
export const renderConfiguration =
  (): string => `<!-- Generated from src/config.ts by \`npm run docs:config\`. Change the schema, not this page. -->

# Configuration

The Worker reads its variables and bindings once, at the first request, and refuses to work when one is wrong: it says
which, what was given and what is allowed. An empty variable counts as unset. A \`HANGO_\` variable that nobody reads is an error
too, because it is mostly a typing error. Secrets are set with \`wrangler secret put NAME\`, everything else stands under
\`[vars]\` in \`wrangler.toml\`. \`npm start\` reads the same variables from its environment.

## Variables

${table(variables, "variable")}

## Bindings

${table(variables, "binding")}

## Only for \`npm start\`

\`DATABASE_URL\`, \`ANTHROPIC_API_KEY\`, \`HANGO_ADMIN_KEY\` and the bindings are optional there: the local platform brings its own.

${table(runnerVariables, "variable")}
`;

if (import.meta.main) {
  const wanted = renderConfiguration();
  if (!process.argv.includes("--check")) await writeFile(PATH, wanted);
  else if ((await readFile(PATH, "utf8").catch(() => "")) !== wanted) {
    console.error("docs/configuration.md is not what src/config.ts says; run `npm run docs:config`.");
    process.exitCode = 1;
  }
}
