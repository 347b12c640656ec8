/**
 * Works on every item, so many at a time: a Worker has six connections (platform.md, "Workers").
 * @returns what came of each, in the order of the items
 * @throws the first failure; others may still be worked on then, and what comes of them is dropped
 */
export const inParallel = async <Item, Made>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<Made>,
): Promise<readonly Made[]> => {
  const made: Made[] = new Array(items.length);
  const waiting = items.entries();
  const worker = async (): Promise<void> => {
    for (const [at, item] of waiting) made[at] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
  return made;
};
