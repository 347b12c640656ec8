/** The subagents that a session is given: who they are, and what they may use. */
import { z } from "@hono/zod-openapi";
import { invalid } from "./errors.ts";
import { boundedText } from "./text.ts";

/** Most types of a session: each is described to the model in every request. */
const MAX_SUBAGENTS = 20;
const MAX_TOOLS = 200;

const subagent = z
  .strictObject({
    name: z
      .string()
      .regex(/^[a-zA-Z0-9_-]{1,64}$/, "expected 1 to 64 letters, digits, _ or -")
      .openapi({
        description: "By which the model names it. `general-purpose` replaces the one that is always there.",
      }),
    description: boundedText(2_000, 1).openapi({ description: "Tells the model what to give it." }),
    system: boundedText(200_000, 1).optional().openapi({ description: "Its system prompt." }),
    model: boundedText(200, 1)
      .regex(/^\S+$/, "expected a model name without white space")
      .optional()
      .openapi({ description: "Default: the session's." }),
    tools: z.array(z.string()).max(MAX_TOOLS).optional().openapi({
      description:
        "Names of those of the session's `tools` that it has, besides the files and the todo list. Default: all that the caller does not run.",
    }),
    max_steps: z.int().min(1).max(100).optional().openapi({ description: "Most model calls of one task." }),
  })
  .openapi("Subagent", {
    example: { name: "reader", description: "Reads long files and answers questions about them.", max_steps: 20 },
  });

/** `false`, or a list with names that are used once. */
export const subagentsSchema = z
  .union([
    z.literal(false, "expected false, or a list (array) of subagents"),
    z
      .array(subagent)
      .max(MAX_SUBAGENTS)
      .superRefine((subagents, context) => {
        const seen = new Set<string>();
        subagents.forEach(({ name }, index) => {
          if (seen.has(name)) context.addIssue({ code: "custom", path: [index, "name"], message: "is used twice" });
          seen.add(name);
        });
      }),
  ])
  .openapi({
    description:
      "Agents that the model can give tasks to with its tool `task`, besides `general-purpose`, which is always there; `false` for none at all.",
  });

export type Subagents = z.infer<typeof subagentsSchema>;

/** A tool of a session, as far as it matters here. */
interface NamedTool {
  readonly name?: unknown;
  readonly type?: unknown;
}

/** Whether the answer depends on the session's tools. */
export const namesTools = (subagents: Subagents | null | undefined): boolean =>
  Array.isArray(subagents) && subagents.some(({ tools }) => tools !== undefined && tools.length > 0);

/**
 * @param within where the subagents stand in the body, `session.` for instance
 * @throws ApiError `invalid_request` for a tool that the session has not, or that a subagent cannot have
 */
export const checkSubagents = (
  subagents: Subagents | null | undefined,
  tools: readonly NamedTool[],
  within = "",
): void => {
  if (!Array.isArray(subagents)) return;
  subagents.forEach(({ tools: names = [] }, index) => {
    names.forEach((name, at) => {
      const place = `${within}subagents[${index}].tools[${at}]`;
      const tool = tools.find((candidate) => candidate.name === name);
      if (tool === undefined) {
        const known = tools.map((candidate) => String(candidate.name)).join(", ");
        throw invalid(
          place,
          `the session has no such tool; ${known === "" ? "it has none of its own" : `its own are ${known}`}`,
        );
      }
      if (tool.type === undefined || tool.type === "custom")
        throw invalid(
          place,
          "is run by the caller, whom a subagent does not wait for; name tools that hango or the provider runs",
        );
    });
  });
};
