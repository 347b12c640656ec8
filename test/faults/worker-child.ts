/** A process of its own for one Worker; its parent speaks to it over IPC, and may kill it with its group at any moment. */
import { startWorkerHost, type WorkerHostOptions } from "../../src/local/worker-host.ts";

export interface ChildOptions extends Omit<WorkerHostOptions, "onLog" | "port" | "beforeSend"> {
  /** Called before the queue takes messages; an answer other than 2xx, or none, keeps it from it. */
  readonly queueUrl: string;
}

/** What the child says. */
export type FromChild =
  | { readonly type: "ready"; readonly url: string }
  | { readonly type: "ticked"; readonly error: string | null }
  | { readonly type: "log"; readonly line: string };

const say = (message: FromChild): void => {
  process.send?.(message);
};

if (import.meta.main) {
  const { queueUrl, ...options }: ChildOptions = JSON.parse(process.argv[2] ?? "{}");
  process.once("disconnect", () => process.exit(1));
  const beforeSend = async (): Promise<void> => {
    const { ok } = await fetch(queueUrl, { method: "POST", headers: { connection: "close" } });
    if (!ok) throw new Error("the queue is away");
  };
  const host = await startWorkerHost({
    ...options,
    port: 0,
    beforeSend,
    onLog: (line) => say({ type: "log", line }),
  });
  process.on("message", () => {
    host.tick().then(
      () => say({ type: "ticked", error: null }),
      (error: unknown) => say({ type: "ticked", error: String(error) }),
    );
  });
  say({ type: "ready", url: host.url });
}
