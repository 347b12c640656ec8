/** The cron door: a list of tasks, each on its own. The door (`worker.ts`) puts the lists of the rooms together. */
import { makeTaskDue, takeDueTasks } from "../store/maintenance-tasks.ts";
import type { Deps } from "./deps.ts";

/** `more`: what is left is done at the next tick. */
export type TaskEnd = "done" | "more";

export interface MaintenanceTask {
  /** Names it in the log and in the store: lasting, and only one has it. */
  readonly name: string;
  /**
   * How often it is due. 0: at every tick, without being recorded, for what must be soon; it then has to be one cheap statement when there is
   * nothing to do.
   */
  readonly everySeconds: number;
  /** Does a bounded piece of work. May throw: the next tick does it again, and the other tasks are done all the same. */
  readonly run: (deps: Deps) => Promise<TaskEnd>;
}

/** Some of the tasks failed; each is in the log. */
export class MaintenanceFailed extends Error {
  override readonly name = "MaintenanceFailed";
  constructor(names: readonly string[]) {
    super(`maintenance failed: ${names.join(", ")}`);
  }
}

const runTask = async (deps: Deps, { name, everySeconds, run }: MaintenanceTask): Promise<boolean> => {
  try {
    const end = await run(deps);
    if (end === "more" && everySeconds > 0) await makeTaskDue(deps.db, name);
    return true;
  } catch (error) {
    deps.log.error("a maintenance task failed", {
      task: name,
      error: error instanceof Error ? error.name : typeof error,
    });
    // Where the store fails too, the task is due at its own time.
    if (everySeconds > 0) await makeTaskDue(deps.db, name).catch(() => undefined);
    return false;
  }
};

/**
 * Does the tasks that are due, one after the other: those of every tick first.
 * @throws MaintenanceFailed when a task failed, after all were tried: the platform shows the tick as failed
 */
export const maintain = async (deps: Deps, tasks: readonly MaintenanceTask[]): Promise<void> => {
  const failed: string[] = [];
  const runAll = async (some: readonly MaintenanceTask[]): Promise<void> => {
    for (const task of some) if (!(await runTask(deps, task))) failed.push(task.name);
  };
  await runAll(tasks.filter(({ everySeconds }) => everySeconds === 0));
  const paced = tasks.filter(({ everySeconds }) => everySeconds > 0);
  try {
    const due = await takeDueTasks(deps.db, paced);
    await runAll(paced.filter(({ name }) => due.has(name)));
  } catch (error) {
    deps.log.error("the due tasks are not known", { error: error instanceof Error ? error.name : typeof error });
    failed.push("due tasks");
  }
  if (failed.length > 0) throw new MaintenanceFailed(failed);
};
