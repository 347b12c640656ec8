/** The model's own list of what it is doing, kept with the session. */
import { z } from "zod";
import { MAX_TODOS, type Middleware, type RunContext } from "../protocol/middleware.ts";
import { defineTool } from "../protocol/tool.ts";

const todo = z.object({
  content: z.string().trim().min(1).max(500),
  status: z.enum(["pending", "in_progress", "completed"]),
});

const GUIDE = `You can keep a todo list with write_todos. Use it for work of three or more steps; for less, just do the work. Each call replaces
the whole list. Mark a todo in_progress before you begin it and completed as soon as it is done.`;

const inputSchema = z.object({ todos: z.array(todo).max(MAX_TODOS) }).strict();

const MARKS = { completed: "[x]", in_progress: "[>]", pending: "[ ]" } as const;

const writeTodos = (run: RunContext) =>
  defineTool({
    name: "write_todos",
    description:
      "Replaces your todo list with the one given, and shows it. Always send every todo, also those that are completed.",
    input: inputSchema,
    idempotent: true,
    // Two lists of one batch would race for which is the last.
    parallel: false,
    run: async ({ todos }) => {
      run.state.private.todos = todos;
      return {
        content:
          todos.length === 0
            ? "The todo list is empty now."
            : todos.map((item) => `${MARKS[item.status]} ${item.content}`).join("\n"),
      };
    },
  });

/** Offers `write_todos`. The list lives in the run's private state and is stored with the session when the turn ends. */
export const todoMiddleware: Middleware = {
  name: "Todo",
  assemble: (draft, run) => {
    draft.system.push({ text: GUIDE });
    draft.tools.push(writeTodos(run));
  },
};
