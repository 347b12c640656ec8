/** Keeps two processes out of one data directory: PGlite does not, and both would write over each other's pages. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, realpath, rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class DirectoryInUseError extends Error {
  override readonly name = "DirectoryInUseError";
}

/**
 * Takes the directory (made when missing) until the returned function is called or this process ends, in whatever way:
 * the lock is a socket that is listened on, and a dead process listens no more. Rejects with `DirectoryInUseError`.
 */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  await mkdir(directory, { recursive: true });
  // Not in the directory itself: a socket's path must stay under about 100 bytes.
  const name = createHash("sha256")
    .update(await realpath(directory))
    .digest("hex")
    .slice(0, 24);
  const path = join(tmpdir(), `hango-lock-${name}`);
  const server = (await listen(path)) ?? (await takeOver(path));
  if (server === undefined) {
    throw new DirectoryInUseError(
      `${directory} is in use by another process. Stop it, or give this one a directory of its own.`,
    );
  }
  server.unref();
  return async () => {
    server.close();
    await rm(path, { force: true });
  };
}

/** Undefined when the path is taken, by a process alive or dead. */
async function listen(path: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  server.listen(path);
  try {
    await once(server, "listening");
    return server;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EADDRINUSE") return undefined;
    throw error;
  }
}

async function takeOver(path: string): Promise<Server | undefined> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
    return undefined;
  } catch {
    await rm(path, { force: true });
    return listen(path);
  } finally {
    socket.destroy();
  }
}
