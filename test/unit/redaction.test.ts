/**
 * Every place where text of a session or of the configuration leaves the room it was in, times every kind of secret (S6). The places are
 * those of docs/redaction.md; what only the built Worker has (spans on the wire, requests to the summariser) is in
 * `test/worker/redaction.test.ts`.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { summarySize } from "../../src/context/acceptance.ts";
import { InvalidView } from "../../src/context/compact.ts";
import { estimateTokens } from "../../src/context/estimate.ts";
import { renderGeneration } from "../../src/context/handoff.ts";
import { renderSections } from "../../src/context/render-sections.ts";
import { EMPTY_SECTIONS, mergeSections, sectionsOf } from "../../src/context/sections.ts";
import { type SummariseInput, summarise } from "../../src/context/summarise.ts";
import { renderInput } from "../../src/context/summary-input.ts";
import { memoryFileSystem } from "../../src/files/memory.ts";
import { offloadResult } from "../../src/files/offload.ts";
import type { FilePath } from "../../src/files/path.ts";
import { createReport } from "../../src/files/tools/grep-report.ts";
import { ModelError } from "../../src/models/errors.ts";
import { seq } from "../../src/protocol/ids.ts";
import { redact, redactJson } from "../../src/protocol/redact.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { strip } from "../../src/telemetry/strip.ts";
import { runErrorOf } from "../../src/turns/failure.ts";
import { keptHeaders } from "../../src/webhooks/payload.ts";
import { render } from "../../src/webhooks/template.ts";
import { log } from "../support/log.ts";
import { everySecret, IDENTIFIERS, leaked, leaksPiece, PLANTED, type Planted } from "../support/secrets.ts";

const redactText = (text: string): string => redact(text).text;
const rendered = (rows: Parameters<typeof renderInput>[0]): string =>
  renderInput(rows, { redact: redactText, pinnedSeq: null })
    .map(({ text }) => text)
    .join("\n");

const USAGE = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };

/** What a summariser was asked, and what became of its answers. */
const summarised = async (over: Partial<SummariseInput>, answer: string, windowTokens = 200_000) => {
  const asked: string[] = [];
  const made = await summarise({
    rows: log().chat(4).rows,
    base: null,
    pinned: null,
    focus: null,
    size: summarySize(50_000, 200_000),
    redact: redactText,
    estimateTokens,
    port: {
      model: "small",
      windowTokens,
      failureOf: () => "transient",
      call: async ({ system, prompt }) => {
        asked.push(system, prompt);
        return { text: answer, stopReason: "end_turn", usage: USAGE, model: "small" };
      },
    },
    ...over,
  });
  if (made.kind !== "summary") throw new Error(made.reason);
  return { asked, summary: made.text, calls: made.calls };
};

const call = (name: string, input: unknown) => [{ type: "tool_use", id: "toolu_1", name, input }];
const filler = (chars: number): string => "The harbour was quiet. ".repeat(Math.ceil(chars / 23)).slice(0, chars);

/** A text in which the cut that comes after so many characters would go through the middle of the secret. */
const tornAt = (chars: number, { text, secret }: Planted): string => {
  const middle = text.indexOf(secret) + Math.floor(secret.length / 2);
  return `${filler(Math.max(0, chars - middle - 1))}\n${text}`;
};

const logged = (write: (log: ReturnType<typeof createLog>) => void): string => {
  const lines: string[] = [];
  write(createLog({ level: "debug", sink: (line) => void lines.push(line), traceIds: () => undefined }));
  return lines.join("\n");
};

/** A finished span as it leaves. */
const exported = (attributes: Record<string, unknown>, event: Record<string, unknown>): string => {
  const span = { attributes: { ...attributes }, events: [{ name: "gen_ai.content", attributes: { ...event } }] };
  strip(span);
  return JSON.stringify(span);
};

const offloaded = async (text: string): Promise<string> => {
  const fs = memoryFileSystem(() => 1);
  const result = await offloadResult({
    callId: "toolu_1",
    toolName: "fetch",
    result: { content: text },
    thresholdTokens: 4_000,
    estimateTokens: (given) => Math.ceil(given.length / 4),
    fs,
  });
  return typeof result.content === "string" ? result.content : JSON.stringify(result.content);
};

type Through = (planted: Planted) => string | Promise<string>;

/** Where text leaves its room, as the first column of the table of docs/redaction.md names it. */
const BOUNDARIES: Readonly<Record<string, Through>> = {
  "summariser's input: user text": ({ text }) => rendered(log().user(text).rows),
  "summariser's input: assistant text": ({ text }) => rendered(log().assistant(text).rows),
  "summariser's input: events": ({ text }) => rendered(log().event(text).rows),
  "summariser's input: tool arguments": ({ text }) =>
    rendered(
      log().row("assistant", call("run", { command: text, nested: { list: [text] }, json: JSON.stringify({ text }) }))
        .rows,
    ),
  "summariser's input: tool arguments by name": ({ named, text }) =>
    rendered(
      log().row("assistant", call("connect", named === undefined ? { token: text } : { options: [named] })).rows,
    ),
  "summariser's input: tool results": ({ text }) =>
    rendered([
      ...log().tools("a").results({ id: "a", text }).rows,
      ...log({ from: 9 })
        .tools("b")
        .results({ id: "b", blocks: [{ type: "text", text: JSON.stringify({ text }) }] }).rows,
    ]),
  "summariser's input: a message that is cut": (planted) =>
    rendered(log().user(`${tornAt(4_000, planted)}\n${filler(9_000)}`).rows),
  "summariser's input: arguments that are cut": (planted) =>
    rendered(log().row("assistant", call("run", { command: `${tornAt(980, planted)}\n${filler(9_000)}` })).rows),
  "summariser's input: the previous summary": async ({ text }) =>
    (await summarised({ base: { summary: text } }, "Done.")).asked.join("\n"),
  "summariser's input: chunks that are merged": async ({ text }) => {
    const { asked, calls } = await summarised({ rows: log().chat(30, () => filler(900)).rows }, `Seen: ${text}`, 9_000);
    expect(calls).toBeGreaterThan(1);
    return asked.join("\n");
  },
  "summariser's input: the focus": async ({ text }) => (await summarised({ focus: text }, "Done.")).asked.join("\n"),
  "summariser's output": async ({ text }) => (await summarised({}, `What was done: ${text}`)).summary,
  "sections: the user's messages": ({ text }) => renderSections(sectionsOf(log().user(text).assistant("Yes.").rows)),
  "sections: a message that is cut": (planted) =>
    JSON.stringify(sectionsOf(log().user(`${tornAt(6_000, planted)}\n${filler(9_000)}`).rows)),
  "sections: openings of older messages": (planted) => {
    const older = sectionsOf(log().user(tornAt(110, planted)).rows);
    const newer = sectionsOf(log({ from: 9 }).chat(9, () => filler(3_000)).rows);
    return JSON.stringify(mergeSections(older, newer));
  },
  "sections: answers to questions": ({ text }) =>
    renderSections(sectionsOf(log().assistant("Which key is to be used for the deployment?").user(text).rows)),
  "sections: files": ({ text }) =>
    renderSections(sectionsOf(log().row("assistant", call("read_file", { file_path: `/srv/${text}` })).rows)),
  "sections: the todo list": (planted) =>
    renderSections(
      sectionsOf(
        log().row("assistant", call("write_todos", { todos: [{ content: tornAt(290, planted), status: "pending" }] }))
          .rows,
      ),
    ),
  "sections: identifiers": ({ text }) => JSON.stringify(sectionsOf(log().assistant(text).rows).identifiers),
  "the stored generation and its handoff": ({ text }) => {
    const sections = sectionsOf(log().user(text).assistant(text).rows);
    return renderGeneration(
      {
        number: 1,
        base: 0,
        covered: [{ from: seq(1), to: seq(2) }],
        summary: redactText(text),
        sections: mergeSections(EMPTY_SECTIONS, sections),
        pinned: null,
        history: { kind: "file", path: "/conversation_history/ses_01.md" },
        prefixVersion: 1,
      },
      "ses_01",
    );
  },
  "spans: attributes": ({ text, named }) => exported({ "gen_ai.prompt": text, list: [text], ...named }, {}),
  "spans: events": ({ text, named }) => exported({}, { "gen_ai.content": text, ...named }),
  "log lines": ({ text, named }) =>
    logged((lines) => {
      lines.with({ about: text }).error("a run failed", { reason: text, ...named });
      lines.warn("telemetry export failed", { reason: `${filler(980)} ${text}` });
    }),
  "errors of a provider": ({ text }) =>
    new ModelError({ kind: "invalid_request" }, { detail: `messages.0: unexpected ${text}` }).message,
  "errors of a provider that are cut": (planted) =>
    new ModelError({ kind: "server" }, { detail: tornAt(290, planted) + filler(900) }).message,
  "errors of runs": ({ text }) => runErrorOf(new InvalidView([`message 3: ${text}`])).message,
  "deliveries of triggers: headers": ({ text, named }) =>
    JSON.stringify(keptHeaders({ "x-note": text.replaceAll("\n", " "), ...named }, [])),
  "prompts of triggers that are cut": (planted) =>
    redactText(
      render(
        "{{{payload}}}",
        { payload: `${tornAt(1_990, planted)}${filler(900)}` },
        { maxChars: 2_000, write: String },
      ),
    ),
  "previews of offloaded results": async (planted) =>
    redactText(
      await offloaded(
        `${tornAt(1_330, planted).replaceAll("\n", " ")} ${filler(40_000)} ${planted.text.replaceAll("\n", " ")} ${filler(500)}`,
      ),
    ),
  "lines that a search shows": ({ text, secret }) => {
    const line = `needle ${filler(300)} ${text.replaceAll("\n", " ")} ${filler(3_000)}`;
    const middle = line.indexOf(secret) + Math.floor(secret.length / 2);
    const report = createReport("content", 10, () => Math.max(0, middle - 300));
    report.add({ path: "/a.txt" as FilePath, line: 1, text: line, before: [], after: [] });
    return redactText(report.text());
  },
};

describe("S6: no secret passes", () => {
  const cases = Object.entries(BOUNDARIES).flatMap(([boundary, through]) =>
    PLANTED.map((planted) => ({ boundary, through, planted, kind: planted.kind })),
  );
  it.each(cases)("$boundary: $kind", async ({ through, planted }) => {
    const text = await through(planted);
    expect([leaked(text), leaksPiece(text, planted)]).toEqual([[], false]);
  });

  it.each(Object.entries(BOUNDARIES).filter(([boundary]) => !boundary.endsWith("by name")))(
    "%s: what is no secret passes, so that the place is one",
    async (boundary, through) => {
      const plain: Planted = { kind: "none", secret: "harbourMaster", text: "note harbourMaster here", beside: [] };
      const isCut = /cut|openings|todo|previews|search/.test(boundary);
      expect(await through(plain)).toContain(isCut ? "The harbour" : plain.secret);
    },
  );

  it("what is told of a leak is every kind that leaks", () => {
    expect(leaked(everySecret())).toEqual(PLANTED.map(({ kind }) => kind));
    expect(leaked(redactText(everySecret()))).toEqual([]);
  });

  it("there are at least ten places and twelve kinds, and docs/redaction.md names each", async () => {
    expect([Object.keys(BOUNDARIES).length >= 10, PLANTED.length >= 12]).toEqual([true, true]);
    const page = await readFile(join(import.meta.dirname, "../../docs/redaction.md"), "utf8");
    const named = [...page.matchAll(/^\| ([^|`]+?) \|/gm)].map(([, name]) => name);
    expect(Object.keys(BOUNDARIES).filter((name) => !named.includes(name))).toEqual([]);
  });
});

describe("S6: identifiers pass", () => {
  it("all of them stand as they are beside every kind of secret", () => {
    const kept = PLANTED.flatMap(({ kind, text, beside }) => {
      const around = `${IDENTIFIERS.join(" ")}\n${text}\n${IDENTIFIERS.join(", ")}`;
      const left = redactText(around);
      return [...IDENTIFIERS, ...beside].filter((id) => !left.includes(id)).map((id) => `${kind}: ${id}`);
    });
    expect(kept).toEqual([]);
  });

  it("all of them are in the index of rows that are full of secrets", () => {
    const rows = log();
    for (const { text } of PLANTED) rows.user(text).assistant(`${IDENTIFIERS.join(" ")} ${text}`);
    const found = new Set(sectionsOf(rows.rows).identifiers.map(({ text }) => text));
    expect(IDENTIFIERS.filter((id) => !found.has(id))).toEqual([]);
    expect([...found].filter((text) => /named_secret|url_credentials|anthropic_key/.test(text))).toEqual([]);
  });

  it("all of them stay where they are the input of a tool", () => {
    const input = Object.fromEntries(IDENTIFIERS.map((id, at) => [`field_${at}`, id]));
    expect(redactJson(input)).toBe(input);
  });
});
