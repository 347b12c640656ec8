import { describe, expect, it } from "vitest";
import type { SeqRange } from "../../../src/context/view-state.ts";
import { historyPath } from "../../../src/files/history.ts";
import { renderHistory } from "../../../src/files/history-text.ts";
import { memoryFileSystem } from "../../../src/files/memory.ts";
import { type MessageId, type SessionId, seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { historyPort } from "../../../src/turns/history-port.ts";

const sessionId = "ses_1" as SessionId;
const TIME = "2026-01-01T00:00:00.000Z";
const row = (at: number, createdAt?: string): LogRow => ({
  id: `msg_${at}` as MessageId,
  seq: seq(at),
  role: "user",
  origin: "user",
  content: '[{"type":"text","text":"hello"}]',
  media: [],
  calls: [],
  tokens: 1,
  bytes: 32,
  runId: null,
  ...(createdAt === undefined ? {} : { createdAt }),
});

describe("the history port", () => {
  const make = (known: readonly number[] = [1, 2, 3, 4]) => {
    const asked: SeqRange[] = [];
    const files = memoryFileSystem(() => 1);
    const port = historyPort({
      files,
      sessionId,
      loadTimes: async (wanted) => {
        asked.push(wanted);
        return new Map(known.map((at) => [seq(at), TIME]));
      },
    });
    return { files, asked, port };
  };

  it("answers a pointer with size and hash, and asks for no times that the rows bring (M1)", async () => {
    const { files, asked, port } = make();
    const rows = [1, 2, 3, 4].map((at) => ({ ...row(at), createdAt: TIME }));
    const section = renderHistory(rows);
    expect(await port.append(rows)).toEqual({
      pointer: { kind: "file", path: historyPath(sessionId) },
      sizeBytes: section.length,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect([new TextDecoder().decode((await files.read(historyPath(sessionId)))?.bytes), asked]).toEqual([section, []]);
  });

  it("writes sections that no other row lies in: an undone one, or one that is in a section already (R3, M1)", async () => {
    const { files, port } = make();
    const rows = [1, 4].map((at) => ({ ...row(at), createdAt: TIME }));
    const written = await port.append(rows);
    const stat = await files.stat(historyPath(sessionId));
    expect(stat?.sections?.map(({ key }) => key)).toEqual([
      { first: 1, last: 1 },
      { first: 4, last: 4 },
    ]);
    expect(written.sizeBytes).toBe(stat?.sizeBytes);
  });

  it("keeps what micro-compaction wrote in sight when the rest of the range follows: no row is hidden, none twice (M1, section 11)", async () => {
    const { files, port } = make();
    const rows = [1, 2, 3, 4, 5, 6].map((at) => ({ ...row(at), createdAt: TIME }));
    const some = (...seqs: readonly number[]) => rows.filter((each) => seqs.includes(each.seq));
    await port.append(some(2));
    await port.append(some(4));
    await port.append(some(1, 3, 5, 6));
    const text = new TextDecoder().decode((await files.read(historyPath(sessionId)))?.bytes);
    expect([...text.matchAll(/^## #(\d+) /gm)].map(([, at]) => Number(at))).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it("takes the times of this turn's rows from the log, in one question", async () => {
    const { files, asked, port } = make();
    await port.append([row(1, "2025-12-31T00:00:00.000Z"), row(2), row(3), row(4, TIME)]);
    const text = new TextDecoder().decode((await files.read(historyPath(sessionId)))?.bytes);
    expect(asked).toEqual([{ from: 2, to: 3 }]);
    expect(text.match(/^## #.*$/gm)).toEqual([
      "## #1 user, origin user, 2025-12-31T00:00:00.000Z",
      ...[2, 3, 4].map((at) => `## #${at} user, origin user, ${TIME}`),
    ]);
  });

  it("writes nothing for a row that the log does not have", async () => {
    const { files, port } = make([2]);
    await expect(port.append([row(2), row(3)])).rejects.toThrow("the log has no row 3");
    expect(await files.stat(historyPath(sessionId))).toBeUndefined();
  });
});
