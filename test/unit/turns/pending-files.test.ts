import { describe, expect, it } from "vitest";
import { BucketUnavailable } from "../../../src/files/bucket-error.ts";
import type { SessionId, TenantId } from "../../../src/protocol/ids.ts";
import type { Deps } from "../../../src/turns/deps.ts";
import { writePendingFiles } from "../../../src/turns/pending-files.ts";

const FILES = ["/skills/a/SKILL.md", "/skills/b/SKILL.md", "/skills/b/x.md"];

/** A bucket that says of each write what became of it, and the row that the files wait in. */
const house = (outcome: (attempt: number, key: string) => "written" | "there" | Error) => {
  const asked: string[] = [];
  const waits: number[] = [];
  const put = async (key: string, _bytes: Uint8Array, { onlyIf }: { readonly onlyIf: object }) => {
    asked.push(`put ${key.slice(key.indexOf("/skills/"))}`);
    expect(onlyIf).toEqual({ etagDoesNotMatch: "*" });
    const said = outcome(asked.filter((each) => each === asked.at(-1)).length, key);
    if (said instanceof Error) throw said;
    return said === "there" ? null : { etag: "e" };
  };
  const batch = async (_: unknown, { name }: { readonly name: string }) => {
    asked.push(name);
    return [[{ pending_files: JSON.stringify(FILES.map((path) => ({ path, text: path }))) }]];
  };
  const sleep = async (ms: number) => {
    waits.push(ms);
  };
  const deps = { bucket: { put }, db: { batch }, sleep } as unknown as Deps;
  return { asked, waits, write: () => writePendingFiles(deps, "tnt_1" as TenantId, "ses_1" as SessionId) };
};

describe("the files that a session was created with", () => {
  it("are written where there is none yet, and are noted as written after the last", async () => {
    const { asked, write } = house((_, key) => (key.endsWith("b/x.md") ? "there" : "written"));
    await write();
    expect([asked[0], asked.slice(1, 4).sort(), asked.slice(4)]).toEqual([
      "load pending files",
      FILES.map((path) => `put ${path}`),
      ["clear pending files"],
    ]);
  });

  it("are tried again where the bucket fails in passing", async () => {
    const { asked, waits, write } = house((attempt) =>
      attempt < 3 ? new BucketUnavailable("internal error (10001)") : "written",
    );
    await write();
    expect([asked.length, asked.at(-1), waits.filter((ms) => ms === 400).length]).toEqual([
      11,
      "clear pending files",
      3,
    ]);
  });

  it("stay noted as not written where one could not be", async () => {
    for (const error of [new BucketUnavailable("internal error (10001)"), new Error("no")]) {
      const { asked, write } = house((_, key) => (key.endsWith("x.md") ? error : "written"));
      await expect(write()).rejects.toBe(error);
      expect(asked).not.toContain("clear pending files");
    }
  });
});
