/** Small recordings for the demo's tests. */
import { type Message, readBlocks } from "../../../../src/local/demo/recording.ts";

export const message = (role: Message["role"], ...blocks: readonly (object | string)[]): Message => ({
  role,
  blocks: readBlocks(
    `[${blocks.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(",")}]`,
    "test",
  ),
});

export const says = (text: string): object => ({ type: "text", text });
export const calls = (id: string, name = "search", input = "{}"): string =>
  `{"type":"tool_use","id":"${id}","name":"${name}","input":${input}}`;
export const result = (id: string, content: unknown = "found", isError = false): object => ({
  type: "tool_result",
  tool_use_id: id,
  content,
  ...(isError ? { is_error: true } : {}),
});

export const user = (...blocks: readonly (object | string)[]): Message => message("user", ...blocks);
export const model = (...blocks: readonly (object | string)[]): Message => message("assistant", ...blocks);
