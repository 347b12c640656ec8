import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { blockTexts, joinBlocks } from "../../../src/context/imported.ts";
import { createRenderer, drivesCall } from "../../../src/context/view.ts";
import { EMPTY_VIEW, type Generation, type ViewState } from "../../../src/context/view-state.ts";
import { checkChatMessages } from "../../../src/local/simulator/chat-messages.ts";
import { templateProblem } from "../../../src/local/simulator/chat-template.ts";
import type { Json } from "../../../src/local/simulator/json.ts";
import { type ChatDialect, chatMessages } from "../../../src/models/chat-messages.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow, ModelRequest, ViewMessage } from "../../../src/protocol/messages.ts";
import { randomLog } from "../../support/random-log.ts";
import { sessionPlan } from "../../support/session-plan.ts";
import { SESSION_PROPERTIES } from "../../support/session-properties.ts";
import { simulate } from "../../support/simulate.ts";

const SEED = 20_261_201;

const STRICT: ChatDialect = { files: false, reasoning: true, strict: true };

/** The messages as they leave for a server, each as JSON text. */
const wireOf = (messages: readonly ViewMessage[]): readonly string[] =>
  messages.flatMap((message) => chatMessages(message, message.content, STRICT));

/** What a server with a strict template says to them; undefined where it takes them. */
const refusalOf = (wire: readonly string[]): string | undefined => {
  try {
    return templateProblem(checkChatMessages(JSON.parse(`[${wire.join(",")}]`) as Json));
  } catch (error) {
    return String(error);
  }
};

const isFiller = ({ content }: ViewMessage): boolean =>
  /^\[{"type":"text","text":"\(no (?:answer|message) here\)"}\]$/.test(content);

/** Everything that the messages say, in order. */
const blocksOf = (messages: readonly ViewMessage[]): readonly string[] =>
  messages.filter((message) => !isFiller(message)).flatMap(({ content }) => blockTexts(content));

const rendererFor = (strictAlternation = true) =>
  createRenderer({
    sessionId: "ses_1",
    estimateTokens: (text) => Math.ceil(text.length / 4),
    messageTokens: () => 1,
    strictAlternation,
  });

/** A view of a log that covers its beginning up to a batch's border. */
const viewOf = (rows: readonly LogRow[], share: number, isPinned: boolean): ViewState => {
  let at = Math.floor(share * rows.length);
  while (at > 0 && (rows[at - 1]?.calls.length ?? 0) > 0) at--;
  const last = rows[at - 1];
  if (last === undefined) return EMPTY_VIEW;
  const generation: Generation = {
    number: 1,
    base: 0,
    covered: [{ from: seq(1), to: last.seq }],
    summary: "",
    sections: {} as never,
    pinned: isPinned ? { seq: seq(1), text: "the request" } : null,
    history: { kind: "api" },
    prefixVersion: 1,
    rendered: "What was done.",
  };
  return { ...EMPTY_VIEW, revision: 1, generation };
};

const asRequest = (messages: readonly ViewMessage[], view: ViewState): boolean =>
  messages.at(-1)?.role === "user" && drivesCall(messages, view);

describe("any log in any view, for a strict template (R8)", () => {
  it("is accepted by the template, and an earlier request begins a later one byte for byte (V2)", () => {
    let requests = 0;
    fc.assert(
      fc.property(
        randomLog({ maxSteps: 25, maxChars: 2_000, inFlight: false, orphans: true }),
        fc.integer({ min: 0, max: 90 }),
        fc.boolean(),
        (rows, percent, isPinned) => {
          const view = viewOf(rows, percent / 100, isPinned);
          const covered = view.generation?.covered.at(-1)?.to ?? 0;
          let before: readonly string[] = [];
          for (let end = covered; end <= rows.length; end++) {
            // A batch is stored before its results, and nothing is sent between the two.
            if ((rows[end - 1]?.calls.length ?? 0) > 0 && end > covered) continue;
            const messages = rendererFor().messages(rows.slice(0, end), view);
            if (!asRequest(messages, view)) continue;
            const wire = wireOf(messages);
            expect(refusalOf(wire)).toBeUndefined();
            expect(wire.slice(0, before.length)).toEqual(before);
            // Nothing is lost, added or moved but what is put in between.
            expect(blocksOf(messages)).toEqual(blocksOf(rendererFor(false).messages(rows.slice(0, end), view)));
            before = wire;
            requests++;
          }
        },
      ),
      { seed: SEED, numRuns: 60 },
    );
    expect(requests).toBeGreaterThan(300);
  });

  it("would be refused without the alternation", () => {
    let refused = 0;
    fc.assert(
      fc.property(randomLog({ maxSteps: 25, maxChars: 200, inFlight: false }), (rows) => {
        const plain = createRenderer({ sessionId: "s", estimateTokens: () => 1, messageTokens: () => 1 });
        if (refusalOf(wireOf(plain.messages(rows, EMPTY_VIEW))) !== undefined) refused++;
      }),
      { seed: SEED, numRuns: 40 },
    );
    expect(refused).toBeGreaterThan(20);
  });
});

/** The same request before alternation: the handoff apart, nothing put in. */
const apartFrom = (request: ModelRequest): ModelRequest => ({
  ...request,
  messages: request.messages
    .filter((message) => !isFiller(message))
    .flatMap((message): readonly ViewMessage[] => {
      if (message.merged !== true) return [message];
      const [first, ...rest] = blockTexts(message.content);
      const { merged: _, ...handoff } = message;
      return [
        { ...handoff, content: joinBlocks([first ?? ""]), media: [] },
        { role: "user", content: joinBlocks(rest), media: message.media },
      ];
    }),
});

describe("any session on a strict template, through any number of compactions (R8)", () => {
  it("sends nothing that the template refuses, and keeps what holds for every session", async () => {
    let requests = 0;
    await fc.assert(
      fc.asyncProperty(sessionPlan(3), async (plan) => {
        const record = await simulate({ ...plan, strictAlternation: true });
        for (const { request } of record.sent) {
          const last = request.messages.at(-1);
          if (last?.role !== "user") continue;
          expect(refusalOf(wireOf(request.messages))).toBeUndefined();
          requests++;
        }
        const apart = { ...record, sent: record.sent.map((sent) => ({ ...sent, request: apartFrom(sent.request) })) };
        const broken = SESSION_PROPERTIES.flatMap(({ name, check }) => [
          // Of the messages as they were sent: an earlier request begins a later one.
          ...(name.includes("(V2") ? check(record) : []),
          ...(name.startsWith("every row is covered") ? [] : check(apart)),
        ]);
        expect(broken).toEqual([]);
      }),
      { seed: SEED, numRuns: 25 },
    );
    expect(requests).toBeGreaterThan(100);
  }, 120_000);
});
