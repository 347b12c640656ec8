/** One platform per data directory: the embedded database must not be opened twice. */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Another process runs with this data directory. */
export class DataDirInUse extends Error {
  override readonly name = "DataDirInUse";
  constructor(dataDir: string, pid: number) {
    super(
      `The data directory ${dataDir} is in use by process ${pid}. Stop that one, or set HANGO_DATA_DIR to another directory.`,
    );
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Not allowed to signal it: then it exists.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
};

const holder = async (lock: string): Promise<number | undefined> => {
  const pid = Number(await readFile(join(lock, "pid"), "utf8").catch(() => ""));
  return Number.isInteger(pid) && pid > 0 && isAlive(pid) ? pid : undefined;
};

/**
 * Takes the directory for this process. A lock left by a process that is gone is taken over.
 * @returns what gives it back
 * @throws DataDirInUse
 */
export const lockDataDir = async (dataDir: string): Promise<() => Promise<void>> => {
  const lock = join(dataDir, "lock");
  for (let attempt = 0; ; attempt++) {
    try {
      await mkdir(lock);
      break;
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
      const pid = await holder(lock);
      if (pid !== undefined || attempt > 0) throw new DataDirInUse(dataDir, pid ?? 0);
      await rm(lock, { recursive: true, force: true });
    }
  }
  await writeFile(join(lock, "pid"), String(process.pid));
  return () => rm(lock, { recursive: true, force: true });
};
