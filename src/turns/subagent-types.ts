/** The subagents that a session can give tasks to, and what the session of one is made of. */

import type { LoadedSession } from "../store/loaded-session.ts";
import type { StartSubagent } from "../store/subagents.ts";
import type { SessionSettings, SubagentSettings } from "./settings.ts";

/** The type that every session has. */
export const GENERAL_PURPOSE = "general-purpose";

const GENERAL: SubagentSettings = {
  name: GENERAL_PURPOSE,
  description:
    "Has the same tools and files as you. For searching, reading through much material, and work of several steps whose way does not matter to you.",
};

const GENERAL_SYSTEM =
  "You work on one task that another agent has given you. Do all of it with the tools you have; nobody answers questions meanwhile.";

/** What every subagent is told: only this reaches whoever gave the task. */
const ANSWER_NOTE =
  "Your last message is handed to the agent that gave you the task, and nothing else of what you did: it must hold the whole answer, with the paths of files that matter. Files that you write stay for that agent.";

/** Types by their order in the tool's description: the general one first, unless the session has one of that name. */
export const subagentTypes = (
  { depth, tools }: Pick<LoadedSession, "depth" | "tools">,
  { subagents }: Pick<SessionSettings, "subagents">,
  maxDepth: number,
  toolName: string,
): readonly SubagentSettings[] => {
  // A session from before this tool was there may have one of its own by that name.
  if (depth >= maxDepth || subagents === false || tools.some(({ name }) => name === toolName)) return [];
  const own = subagents ?? [];
  return own.some(({ name }) => name === GENERAL_PURPOSE) ? own : [GENERAL, ...own];
};

/** A tool that the caller runs would stop the subagent until somebody answers: it has none of those. */
const runsByItself = ({ type }: Readonly<Record<string, unknown>>): boolean => type !== undefined && type !== "custom";

/**
 * The session of a subagent: the parent's settings where its type says nothing else. What is bound to the parent's model does not go with another one,
 * and the budget stays with the parent, whose every subagent draws on it.
 */
export const subagentSession = (
  { model, tools, settings }: Pick<LoadedSession, "model" | "tools" | "settings">,
  type: SubagentSettings,
): Pick<StartSubagent, "model" | "system" | "tools" | "settings"> => {
  const { budget: _, max_steps: maxSteps, max_tokens: maxTokens, thinking, context, ...rest } = settings;
  const same = type.model === undefined || type.model === model;
  const given = (context ?? {}) as Readonly<Record<string, unknown>>;
  const { max_input_tokens: _window, strict_alternation: _strict, ...ofAnyModel } = given;
  const ownContext = same ? given : ofAnyModel;
  const steps = type.max_steps ?? maxSteps;
  const { tools: names } = type;
  return {
    model: type.model ?? model,
    system: `${type.system ?? GENERAL_SYSTEM}\n\n${ANSWER_NOTE}`,
    tools: tools.filter((tool) => runsByItself(tool) && (names === undefined || names.includes(String(tool.name)))),
    settings: {
      ...rest,
      ...(steps === undefined ? {} : { max_steps: steps }),
      ...(same && maxTokens !== undefined ? { max_tokens: maxTokens } : {}),
      ...(same && thinking !== undefined ? { thinking } : {}),
      ...(context === undefined ? {} : { context: ownContext }),
    },
  };
};
