import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, describe, expect, it } from "vitest";
import { MediaMissing, r2MediaStore } from "../../src/files/media.ts";
import { r2FileSystem, withRateLimitRetries } from "../../src/files/r2.ts";
import { at, fileSystemContract } from "../unit/files/contract.ts";

const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    modules: true,
    script: "export default { fetch: () => new Response(null) }",
    compatibilityDate: "2026-01-01",
    r2Buckets: ["FILES"],
  }),
);
const bucketReady = miniflare.getR2Bucket("FILES") as unknown as Promise<R2Bucket>;
afterAll(() => miniflare.dispose());

const noSleep = async (): Promise<void> => undefined;
let session = 0;
const newRoot = () => `tenants/tnt_1/sessions/ses_${++session}`;

fileSystemContract("the filesystem on R2", async () => r2FileSystem(await bucketReady, newRoot(), noSleep), 15);

describe("R2 objects", () => {
  it("lie under the session's root, apart by purpose, and an erasure leaves other sessions alone", async () => {
    const bucket = await bucketReady;
    const root = newRoot();
    const other = r2FileSystem(bucket, `${root}0`, noSleep);
    const fs = r2FileSystem(bucket, root, noSleep);
    await other.write(at("/a"), "other");
    await fs.write(at("/media/x"), "1");
    await fs.append(at("/conversation_history/s.md"), "2\n", { first: 1, last: 20 });
    const media = r2MediaStore(bucket, root, noSleep);
    const hash = await media.put("AAAA");
    const keys = async () => (await bucket.list({ prefix: root })).objects.map(({ key }) => key.slice(root.length));
    expect(await keys()).toEqual([
      "/files/media/x",
      `/media/${hash}`,
      "/sections/conversation_history/s.md//0000000000000001-0000000000000020",
      "0/files/a",
    ]);
    expect([await fs.removeAll(), await keys()]).toEqual([2, [`/media/${hash}`, "0/files/a"]]);
    expect([await media.removeAll(), await keys()]).toEqual([1, ["0/files/a"]]);
  });

  it("are removed and listed page by page, however small the pages", async () => {
    const bucket = await bucketReady;
    const limits = new Set<number | undefined>();
    const small = new Proxy(bucket, {
      get: (target, name) =>
        name === "list"
          ? (options: R2ListOptions) => {
              limits.add(options.limit);
              return target.list({ ...options, limit: 4 });
            }
          : Reflect.get(target, name, target).bind(target),
    });
    const root = newRoot();
    const fs = r2FileSystem(small, root, noSleep);
    for (let index = 0; index < 10; index++) {
      await fs.write(at(`/${index}`), "");
      await fs.append(at("/h"), `${index}`, { first: index, last: index });
    }
    expect(new TextDecoder().decode((await fs.read(at("/h")))?.bytes)).toBe("0123456789");
    expect([await fs.removeAll(), (await bucket.list({ prefix: root })).objects]).toEqual([20, []]);
    expect([...limits]).toEqual([1_000]);
  });

  it("of a sectioned file are read only where a range needs them", async () => {
    const bucket = await bucketReady;
    const gets: (readonly [string, unknown])[] = [];
    const watched = new Proxy(bucket, {
      get: (target, name) =>
        name === "get"
          ? (key: string, options: R2GetOptions) => {
              gets.push([key.slice(-4), options.range]);
              return target.get(key, options);
            }
          : Reflect.get(target, name, target).bind(target),
    });
    const fs = r2FileSystem(watched, newRoot(), noSleep);
    for (const index of [1, 2, 3, 4]) await fs.append(at("/h"), "0123456789", { first: index, last: index });
    gets.length = 0;
    const read = await fs.read(at("/h"), { range: { offsetBytes: 15, lengthBytes: 10 } });
    expect(new TextDecoder().decode(read?.bytes)).toBe("5678901234");
    expect(gets.slice(1)).toEqual([
      ["0002", { offset: 5, length: 5 }],
      ["0003", { offset: 0, length: 5 }],
    ]);
  });
});

describe("media in R2 (V10)", () => {
  it("come back as the exact text, are stored once, and are missed with a typed error", async () => {
    const bucket = await bucketReady;
    const root = newRoot();
    const media = r2MediaStore(bucket, root, noSleep);
    const text = `iVBORw0KGgo\\/${"A".repeat(100_000)}==`;
    const [first, second] = await Promise.all([media.put(text), media.put(text)]);
    const uploaded = (await bucket.head(`${root}/media/${first}`))?.uploaded;
    expect([second, await media.put(text), (await media.get(first)) === text]).toEqual([first, first, true]);
    expect((await bucket.head(`${root}/media/${first}`))?.uploaded).toEqual(uploaded);
    for (const hash of ["0".repeat(64), "../files/a", ""]) await expect(media.get(hash)).rejects.toThrow(MediaMissing);
  });
});

describe("a key that R2 refuses to write twice in a second", () => {
  const refuse = (times: number, message: string) => {
    let left = times;
    return async () => {
      if (left-- > 0) throw new Error(message);
      return "written";
    };
  };

  it("is tried again after growing waits", async () => {
    const waits: number[] = [];
    const sleep = async (ms: number) => void waits.push(ms);
    expect(await withRateLimitRetries(refuse(4, "put: Reduce your request rate. (10058)"), sleep)).toBe("written");
    expect(waits).toEqual([400, 800, 1_600, 2_400]);
  });

  it("is given up after four waits, and other errors at once", async () => {
    await expect(withRateLimitRetries(refuse(9, "put: (10058)"), noSleep)).rejects.toThrow("10058");
    await expect(withRateLimitRetries(refuse(1, "put: internal error (10001)"), noSleep)).rejects.toThrow("10001");
  });
});
