/** What a session keeps in R2, for those outside a run: its files and the media of its log. */
import type { FileSystem } from "../files/filesystem.ts";
import { type MediaStore, r2MediaStore } from "../files/media.ts";
import { r2FileSystem } from "../files/r2.ts";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { Deps } from "./deps.ts";
import { sessionRoot } from "./objects.ts";

export type { FileEntry, FileStat, FileSystem, WriteOptions } from "../files/filesystem.ts";
export { type FilePath, isReadOnly, parseDirectory, parsePath } from "../files/path.ts";

/** The filesystem of a session. The caller has found the session among the tenant's. */
export const sessionFiles = (deps: Deps, tenantId: TenantId, sessionId: SessionId): FileSystem =>
  r2FileSystem(deps.bucket, sessionRoot(tenantId, sessionId), deps.sleep);

/** The media that the log of a session refers to (V10). The same. */
export const sessionMedia = (deps: Deps, tenantId: TenantId, sessionId: SessionId): MediaStore =>
  r2MediaStore(deps.bucket, sessionRoot(tenantId, sessionId), deps.sleep);
