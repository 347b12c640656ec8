/** CPU time of the thread that the Worker runs on, and the size of its isolate's heap, read from outside of it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { Miniflare } from "miniflare";
import { profileRows } from "./profile.ts";

export interface IsolateMeter {
  /**
   * CPU time of workerd's main thread so far, in ms. All of the Worker's code and its garbage collection's pauses run there; so do
   * Miniflare's own Workers (R2, queues, routing), so it is more than the Worker's own, never less.
   */
  cpuMs(): number;
  /** Resolves once workerd has nothing left to do. */
  quiet(): Promise<void>;
  /** Does work, and reads the heap again and again meanwhile. @returns the largest total size that V8 held for it, in bytes */
  peakHeapBytes(work: () => Promise<unknown>): Promise<number>;
  /** Does work under V8's profiler. @returns functions by their CPU time, largest first */
  profile(work: () => Promise<unknown>): Promise<readonly string[]>;
  close(): void;
}

/** The id of the one Worker among those of Miniflare. */
const WORKER = "core:user:hango";
const HEAP_POLL_MS = 10;
const QUIET_POLL_MS = 25;
/** Timers and the inspector's own connection use a little. */
const QUIET_MS = 0.5;
const SAMPLING_US = 250;

const statOf = (pid: string): readonly string[] => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return [
      stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")")),
      ...stat.slice(stat.lastIndexOf(")") + 2).split(" "),
    ];
  } catch {
    return [];
  }
};

/** The process that Miniflare started. @throws Error where there is no such process, or no Linux */
const workerdPid = (): string => {
  const pids = existsSync("/proc/self/schedstat") ? readdirSync("/proc").filter((name) => /^\d+$/.test(name)) : [];
  const found = pids.filter((pid) => {
    const [name, , parent] = statOf(pid);
    return name === "workerd" && parent === String(process.pid);
  });
  // The newest: names in a folder are in the order of text, where 999 comes after 1000.
  const pid = found.toSorted((a, b) => Number(a) - Number(b)).at(-1);
  if (pid === undefined)
    throw new Error("CPU time is measured on Linux only, by /proc of the workerd that was started.");
  return pid;
};

const wait = (durationMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, durationMs));

interface Target {
  readonly id: string;
  readonly webSocketDebuggerUrl: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** Commands of the inspector's protocol. */
const connect = async (miniflare: Miniflare) => {
  const { host } = await miniflare.getInspectorURL();
  const targets: readonly Target[] = await (await fetch(`http://${host}/json/list`)).json();
  const target = targets.find(({ id }) => id === WORKER);
  if (target === undefined) throw new Error("The Worker has no inspector.");
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", () => reject(new Error("The inspector cannot be reached.")));
  });
  const waiting = new Map<number, (result: Fields) => void>();
  socket.addEventListener("message", ({ data }) => {
    const message: { readonly id?: number; readonly result?: Fields } = JSON.parse(String(data));
    if (message.id === undefined) return;
    waiting.get(message.id)?.(message.result ?? {});
    waiting.delete(message.id);
  });
  let sent = 0;
  return {
    send: (method: string, params: object = {}): Promise<Fields> =>
      new Promise((resolve) => {
        sent += 1;
        waiting.set(sent, resolve);
        socket.send(JSON.stringify({ id: sent, method, params }));
      }),
    close: () => socket.close(),
  };
};

/** @param miniflare started to be inspectable; the newest one of this process */
export const openMeter = async (miniflare: Miniflare): Promise<IsolateMeter> => {
  const pid = workerdPid();
  const { send, close } = await connect(miniflare);
  await send("Profiler.enable");
  await send("Profiler.setSamplingInterval", { interval: SAMPLING_US });
  const cpuMs = (): number => Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  return {
    cpuMs,
    quiet: async () => {
      for (let before = Number.NEGATIVE_INFINITY; cpuMs() - before > QUIET_MS; ) {
        before = cpuMs();
        await wait(QUIET_POLL_MS);
      }
    },
    peakHeapBytes: async (work) => {
      let peak = 0;
      let done = false;
      const poll = async (): Promise<void> => {
        while (!done) {
          const { totalSize, backingStorageSize } = await send("Runtime.getHeapUsage");
          peak = Math.max(peak, Number(totalSize) + Number(backingStorageSize));
          await wait(HEAP_POLL_MS);
        }
      };
      const polling = poll();
      await work().finally(() => {
        done = true;
      });
      await polling;
      return peak;
    },
    profile: async (work) => {
      await send("Profiler.start");
      await work();
      return profileRows((await send("Profiler.stop"))["profile"], SAMPLING_US);
    },
    close,
  };
};
