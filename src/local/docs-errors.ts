/** Writes `docs/errors.md` from the list of errors; with `--check` says whether it is what the list says. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCodes, errorKinds } from "../api/errors.ts";

const PATH = join(import.meta.dirname, "../../docs/errors.md");

const row = (code: (typeof errorCodes)[number]): string => {
  const { status, type, retryable, description } = errorKinds[code];
  return `| \`${code}\` | ${status} | \`${type}\` | ${retryable ? "yes" : "no"} | ${description.replaceAll("|", "\\|")} |`;
};

/** The whole page. */
export const renderErrors =
  (): string => `<!-- Generated from src/api/errors.ts by \`npm run docs:errors\`. Change the list, not this page. -->

# Errors

Every error has this shape, whatever went wrong. An error in the middle of an event stream is an event with the same \`error\` object.

\`\`\`json
{
  "type": "error",
  "error": {
    "type": "invalid_request_error",
    "code": "invalid_request",
    "message": "tools[0].url: expected an https:// URL",
    "param": "tools[0].url",
    "retryable": false
  },
  "request_id": "req_..."
}
\`\`\`

Decide by \`code\`: the list is closed. \`message\` is for people and may change. \`retryable\` says whether the same request may
succeed later; when there is a \`Retry-After\`, wait that long. \`request_id\` is also in the header \`X-Request-Id\`; quote it when you
report a problem.

| code | status | type | retryable | when it happens, and what to do |
| --- | --- | --- | --- | --- |
${errorCodes.map(row).join("\n")}
`;

if (import.meta.main) {
  const wanted = renderErrors();
  if (!process.argv.includes("--check")) await writeFile(PATH, wanted);
  else if ((await readFile(PATH, "utf8").catch(() => "")) !== wanted) {
    console.error("docs/errors.md is not what src/api/errors.ts says; run `npm run docs:errors`.");
    process.exitCode = 1;
  }
}
