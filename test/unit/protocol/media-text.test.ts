import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { externaliseMedia, inlineMedia, MEDIA_INLINE_LIMIT } from "../../../src/protocol/media-text.ts";

/** A store of payloads whose "hashes" are counted. */
const shelf = () => {
  const texts = new Map<string, string>();
  return {
    texts,
    put: async (text: string) => {
      const known = [...texts].find(([, each]) => each === text)?.[0];
      const hash = known ?? String(texts.size + 1).padStart(64, "0");
      texts.set(hash, text);
      return hash;
    },
    load: async (hash: string) => {
      const text = texts.get(hash);
      if (text === undefined) throw new Error(`no ${hash}`);
      return text;
    },
  };
};
const hash = (n: number) => String(n).padStart(64, "0");
const reference = (n: number) => `hango:media/sha256-${hash(n)}`;
const big = "A".repeat(MEDIA_INLINE_LIMIT + 1);
const image = (data: string) => `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"${data}"}}`;

describe("media leave the content text and come back byte for byte (V9, V10)", () => {
  it("a reference to a PDF tells its pages, which nobody can see in it any more (E2)", async () => {
    const { put, load } = shelf();
    const pages = Buffer.from(`%PDF-1.7 ${"/Type /Page /Type/Pages ".repeat(3_000)}`).toString("base64");
    const text = `[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"${pages}"}}]`;
    const stored = await externaliseMedia(text, put);
    expect(stored).toEqual({ content: text.replace(pages, `${reference(1)};pages=3000`), media: [hash(1)] });
    expect(await inlineMedia(stored.content, stored.media, load)).toBe(text);
  });

  it("replaces only payloads over 64 KB, and leaves every other byte", async () => {
    const { put, texts } = shelf();
    const small = "A".repeat(MEDIA_INLINE_LIMIT);
    const text = ` [ ${image(big)} ,{"type":"text" , "text":"${big}","n":1.0},${image(small)}]`;
    expect(await externaliseMedia(text, put)).toEqual({
      content: text.replace(`"${big}"}}`, `"${reference(1)}"}}`),
      media: [hash(1)],
    });
    expect([...texts.values()]).toEqual([big]);
  });

  it.each([
    ["a tool result", `[{"type":"tool_result","tool_use_id":"t","content":[${image("@")}]}]`],
    ["a document of blocks", `[{"type":"document","source":{"type":"content","content":[${image("@")}]}}]`],
    [
      "a server tool's result",
      `[{"type":"web_fetch_tool_result","content":{"type":"web_fetch_result","content":{"type":"document","source":{"type":"base64","data":"@"}}}}]`,
    ],
    ["a source whose data comes first", `[{"source":{"data":"@","type":"base64"},"type":"image"}]`],
  ])("finds them in %s", async (_, text) => {
    const { put } = shelf();
    expect(await externaliseMedia(text.replace("@", big), put)).toEqual({
      content: text.replace("@", reference(1)),
      media: [hash(1)],
    });
  });

  it.each([
    ["tool input", `[{"type":"tool_use","id":"t","name":"n","input":{"source":{"type":"base64","data":"${big}"}}}]`],
    ["a source that is no base64", `[{"type":"document","source":{"type":"text","data":"${big}"}}]`],
    ["a text", `[{"type":"text","text":"base64${big}"}]`],
  ])("does not touch %s", async (_, text) => {
    expect(await externaliseMedia(text, shelf().put)).toEqual({ content: text, media: [] });
  });

  it("does not take a caller's text for a reference: what looks like one is stored like media", async () => {
    const { put, load } = shelf();
    const text = `[${image(reference(1))},${image(big)},{"type":"text","text":"${reference(1)}"}]`;
    const stored = await externaliseMedia(text, put);
    expect(stored.media).toEqual([hash(1), hash(2)]);
    expect(await inlineMedia(stored.content, stored.media, load)).toBe(text);
  });

  it("loads equal media once, and nothing when the row has none", async () => {
    const { put, load } = shelf();
    const text = `[${image(big)},${image(big)}]`;
    const { content, media } = await externaliseMedia(text, put);
    let loads = 0;
    const counted = (hash: string) => {
      loads++;
      return load(hash);
    };
    expect(await inlineMedia(content, media, counted)).toBe(text);
    expect(loads).toBe(1);
    expect(await inlineMedia(content, [], counted)).toBe(content);
    expect(loads).toBe(1);
  });

  it("fails when a payload cannot be loaded, rather than send the reference", async () => {
    const { content, media } = await externaliseMedia(`[${image(big)}]`, shelf().put);
    await expect(inlineMedia(content, media, shelf().load)).rejects.toThrow("no 0");
  });

  it("gives back any content byte for byte", async () => {
    const payload = fc.oneof(
      fc.constantFrom("", "AAAA", reference(1), reference(7), `x${reference(1)}`),
      fc.integer({ min: 0, max: 3 }).map((n) => `${n}\\/${"B".repeat(MEDIA_INLINE_LIMIT)}`),
    );
    const block = fc.oneof(
      payload.map(image),
      payload.map((data) => `{"type":"tool_result","tool_use_id":"t", "content":[${image(data)}]}`),
      fc.jsonValue({ stringUnit: "binary" }).map((value) => JSON.stringify(value)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(block, { maxLength: 6 }), async (blocks) => {
        const { put, load } = shelf();
        const text = `[${blocks.join(" ,\n")}]`;
        const { content, media } = await externaliseMedia(text, put);
        expect((await inlineMedia(content, media, load)) === text).toBe(true);
        expect(content.length < MEDIA_INLINE_LIMIT * 2).toBe(true);
      }),
      { numRuns: 60 },
    );
  });
});
