/**
 * Guards with one check taken out of each: what the harness must notice, since otherwise it could not fail. The source on the disk stays as it is; a run
 * with a mutation is given other text for one file.
 */

export interface Mutation {
  readonly name: string;
  /** Of the file, from the project on. */
  readonly file: string;
  /** Stands in the file once. */
  readonly from: string;
  readonly to: string;
  /** The session that the run begins with, where it is known which one notices it. */
  readonly first: number;
  /** By which invariants it is to be noticed. */
  readonly caughtBy: readonly string[];
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a probation never grants its probe (G4)",
    file: "src/store/probation.ts",
    from: "and h.probation_at <= hango_now() and h.probe_id is distinct from",
    to: "and false and h.probe_id is distinct from",
    first: 33,
    caughtBy: ["no guard for ever"],
  },
  {
    name: "compactions without effect do not block further ones (G3)",
    file: "src/context/guards/decide.ts",
    from: "if (!isBlocked(state)) return undefined;",
    to: "return undefined;",
    first: 0,
    caughtBy: ["G4"],
  },
  {
    name: "a commit is a strike, without a reading (G3)",
    file: "src/context/guards/after.ts",
    from: "sameResult: state.sameResult || isStuck,",
    to: "sameResult: state.sameResult || isStuck, strikes: state.strikes + 1,",
    first: 0,
    caughtBy: ["G3"],
  },
  {
    name: "a summary that was made does not end the cooldown (G1)",
    file: "src/context/guards/after.ts",
    from: `    ...state,
    cooldown: NO_GUARDS.cooldown,`,
    to: "    ...state,",
    first: 0,
    caughtBy: ["G1"],
  },
  {
    name: "a cooldown is not heeded (G1)",
    file: "src/context/guards/decide.ts",
    from: 'if (cooldown.active) return "cooldown";',
    to: "",
    first: 0,
    caughtBy: ["G1"],
  },
  {
    name: "a commit does not ask who holds the session (M2)",
    file: "src/store/lease.ts",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is the source's.
    from: "h.lease_holder = ${lease.holder} and h.lease_epoch = ${lease.epoch} and h.lease_expires_at > hango_now()`;",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is the source's.
    to: "(true or h.lease_holder = ${lease.holder})`;",
    first: 0,
    caughtBy: ["M2", "M6", "bills", "progress", "M5", "one end a run", "V3", "typed errors"],
  },
];

/** The text of a file under a mutation. @returns undefined for every other file @throws when what is to be taken out is not there any more */
export const mutated = (mutation: Mutation, path: string, text: string): string | undefined => {
  if (!path.endsWith(`/${mutation.file}`)) return undefined;
  const parts = text.split(mutation.from);
  if (parts.length !== 2)
    throw new Error(
      `${mutation.file} has ${JSON.stringify(mutation.from)} ${parts.length - 1} times: name the check anew`,
    );
  return parts.join(mutation.to);
};
