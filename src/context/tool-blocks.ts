/** Finds tool calls and their results in a content text by place, so that parts of them can be replaced and the rest stays as it is (V9). */
import { arrayElements, type Member, objectMembers, type Span } from "../protocol/json-text.ts";
import type { ContentText } from "../protocol/messages.ts";

export interface ToolBlock {
  /** The call's id: `id` of a call, `tool_use_id` of a result. */
  readonly callId: string;
  /** The tool's name; empty for a result. */
  readonly name: string;
  /** Where `input` of a call or `content` of a result stands, or null where there is none. */
  readonly body: Span | null;
}

/** A member as a parser sees it: the last of its name. */
export const memberNamed = (members: readonly Member[], key: string): Member | undefined =>
  members.findLast((each) => each.key === key);

/** A value where it is a string, else the empty text. */
export const stringOf = (text: string, value: Span | undefined): string =>
  value !== undefined && text[value.start] === '"' ? String(JSON.parse(text.slice(value.start, value.end))) : "";

interface Kind {
  readonly type: string;
  readonly idKey: string;
  readonly bodyKey: string;
}

const CALL: Kind = { type: "tool_use", idKey: "id", bodyKey: "input" };
const RESULT: Kind = { type: "tool_result", idKey: "tool_use_id", bodyKey: "content" };

const blocksOf = (content: ContentText, kind: Kind): readonly ToolBlock[] => {
  // Most rows that hold none are told by this alone, unread.
  if (!content.includes(`"${kind.type}"`)) return [];
  return arrayElements(content).flatMap(({ start }) => {
    const members = objectMembers(content, start);
    if (stringOf(content, memberNamed(members, "type")) !== kind.type) return [];
    return [
      {
        callId: stringOf(content, memberNamed(members, kind.idKey)),
        name: stringOf(content, memberNamed(members, "name")),
        body: memberNamed(members, kind.bodyKey) ?? null,
      },
    ];
  });
};

/** The calls that the caller's side runs, in order; not those that the provider runs itself (V6). */
export const toolCalls = (content: ContentText): readonly ToolBlock[] => blocksOf(content, CALL);

/** The results of such calls, in order. */
export const toolResults = (content: ContentText): readonly ToolBlock[] => blocksOf(content, RESULT);

/** One piece of a result, where it stands: a block of it, or all of it where it is a plain string. */
export interface ResultPart extends Span {
  readonly type: string;
  /** Where the text stands, quotes included, or null for what is no text. */
  readonly text: Span | null;
}

/** The pieces of a result's content. */
export const resultParts = (content: ContentText, body: Span): readonly ResultPart[] => {
  if (content[body.start] === '"') return [{ ...body, type: "text", text: body }];
  if (content[body.start] !== "[") return [];
  return arrayElements(content, body.start).map(({ start, end }) => {
    const members = objectMembers(content, start);
    const type = stringOf(content, memberNamed(members, "type"));
    const text = memberNamed(members, "text");
    const isText = type === "text" && text !== undefined && content[text.start] === '"';
    return { start, end, type, text: isText ? text : null };
  });
};
