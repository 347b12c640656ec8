import { memoryFileSystem } from "../../../src/files/memory.ts";
import { fileSystemContract } from "./contract.ts";

let clock = 0;
fileSystemContract("the filesystem in memory", async () => memoryFileSystem(() => ++clock), 200);
