/** Gates that answers wait at until a test opens them, so that no test has to sleep. */
interface Gate {
  readonly opened: PromiseWithResolvers<void>;
  readonly reached: PromiseWithResolvers<void>;
}

export const createGates = () => {
  const gates = new Map<string, Gate>();
  const gate = (name: string): Gate => {
    const known = gates.get(name);
    if (known !== undefined) return known;
    const made = { opened: Promise.withResolvers<void>(), reached: Promise.withResolvers<void>() };
    gates.set(name, made);
    return made;
  };
  return {
    /** Resolves once the gate is open; an open gate stays open. */
    pass: (name: string): Promise<void> => {
      gate(name).reached.resolve();
      return gate(name).opened.promise;
    },
    open: (name: string): void => gate(name).opened.resolve(),
    /** Resolves once an answer has come to the gate. */
    reached: (name: string): Promise<void> => gate(name).reached.promise,
    /** Opens every gate and forgets it. */
    reset: (): void => {
      for (const one of gates.values()) one.opened.resolve();
      gates.clear();
    },
  };
};

export type Gates = ReturnType<typeof createGates>;
