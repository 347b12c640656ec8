/** Which sessions are replayed: every recording that is long enough, and one that is chained of the shorter ones. */
import { existsSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseRecording, type Recording, RecordingError } from "../demo/recording.ts";
import { chain, replayable } from "./chain.ts";

/** A recording with fewer messages is part of the chain. */
export const LONG_MESSAGES = 40;

const PROJECT = join(import.meta.dirname, "../../..");
const COLLECTION = join(PROJECT, "../shared/data/sessions");
const SAMPLE = [join(PROJECT, "test/fixtures/sessions"), join(PROJECT, "test/fixtures/demo")];

/** The folders that are replayed unless others are given: the collection beside the checkout, else the sample. */
export const defaultFolders = (): readonly string[] => (existsSync(COLLECTION) ? [COLLECTION] : SAMPLE);

/** The collection beside the checkout, where it exists. */
export const collectionFolder = (): string | undefined => (existsSync(COLLECTION) ? COLLECTION : undefined);

/** The sample that comes with the project. */
export const sampleFolders: readonly string[] = SAMPLE;

export interface Source {
  readonly name: string;
  readonly recording: Recording;
}

const readOne = async (path: string): Promise<Source> => {
  try {
    return { name: basename(path, ".jsonl"), recording: replayable(parseRecording(await readFile(path, "utf8"))) };
  } catch (error) {
    if (error instanceof RecordingError) throw new RecordingError(`${path}: ${error.message}`);
    throw error;
  }
};

const filesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder))
    .filter((name) => name.endsWith(".jsonl"))
    .sort()
    .map((name) => join(folder, name));

/** The long ones as they are, the others as one. */
export const arrange = (sources: readonly Source[]): readonly Source[] => {
  const long = sources.filter(({ recording }) => recording.messages.length >= LONG_MESSAGES);
  const short = sources.filter(({ recording }) => recording.messages.length < LONG_MESSAGES);
  if (short.length === 0) return long;
  const name = `chain of ${short.length} short`;
  return [
    ...long,
    {
      name,
      recording: chain(
        name,
        short.map(({ recording }) => recording),
      ),
    },
  ];
};

export interface Collected {
  readonly sources: readonly Source[];
  /** Files that were passed over because of their size. */
  readonly tooLarge: readonly string[];
}

/**
 * Reads folders of recordings.
 * @param maxBytes larger files are passed over
 * @throws RecordingError naming the file
 */
export const collect = async (folders: readonly string[], maxBytes: number): Promise<Collected> => {
  const paths = (await Promise.all(folders.map(filesIn))).flat();
  const sizes = await Promise.all(paths.map(async (path) => (await stat(path)).size));
  const fits = (_: string, index: number): boolean => (sizes[index] ?? 0) <= maxBytes;
  const sources = await Promise.all(paths.filter(fits).map(readOne));
  return {
    sources: arrange(sources),
    tooLarge: paths.filter((path, index) => !fits(path, index)).map((path) => basename(path)),
  };
};
