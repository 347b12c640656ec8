/** A Worker in a process of its own, as its parent sees it. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { ChildOptions, FromChild } from "./worker-child.ts";

export interface WorkerProcess {
  readonly url: string;
  /** Lines that the Worker logged. */
  readonly logs: readonly string[];
  /** Runs what the cron trigger runs. Rejects when it failed. */
  tick(): Promise<void>;
  /** SIGKILL to the process and to workerd: no handler runs, nothing is said to anybody. Resolves once they are gone. */
  kill(): Promise<void>;
}

const FILE = join(import.meta.dirname, "worker-child.ts");

export const startWorkerProcess = async (options: ChildOptions): Promise<WorkerProcess> => {
  const child = spawn(process.execPath, [FILE, JSON.stringify(options)], {
    detached: true,
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
  });
  const logs: string[] = [];
  let ticked = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<string>();
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const over = () => new Error("the Worker's process has ended");
  child.once("exit", () => {
    ready.reject(over());
    ticked.promise.catch(() => undefined);
    ticked.reject(over());
  });
  child.on("message", (message: FromChild) => {
    switch (message.type) {
      case "ready":
        return ready.resolve(message.url);
      case "log":
        return logs.push(message.line);
      case "ticked":
        return message.error === null ? ticked.resolve() : ticked.reject(new Error(message.error));
      default:
        return message satisfies never;
    }
  });
  const url = await ready.promise;
  return {
    url,
    logs,
    tick: () => {
      ticked = Promise.withResolvers<void>();
      child.send("tick", (error) => {
        if (error !== null) ticked.reject(error);
      });
      return ticked.promise;
    },
    kill: async () => {
      if (child.exitCode === null && child.signalCode === null && child.pid !== undefined)
        process.kill(-child.pid, "SIGKILL");
      await gone;
    },
  };
};
