/** Database errors, whose three shapes (drizzle-wrapped, bare from a batch, driver) are read by walking the causes. */

/** SQLSTATE classes after which the same statements may succeed: connection, resources, operator intervention. */
const TRANSIENT_CLASSES = new Set(["08", "53", "57"]);
/** Serialization failure and deadlock: the transaction was rolled back whole. */
const TRANSIENT_CODES = new Set(["40001", "40P01"]);

export interface PostgresFault {
  /** SQLSTATE. */
  readonly code: string;
  readonly constraint?: string;
}

const causes = function* (error: unknown): Generator<object> {
  for (let at: unknown = error, depth = 0; typeof at === "object" && at !== null && depth < 8; depth++) {
    yield at;
    at = "cause" in at ? at.cause : "sourceError" in at ? at.sourceError : undefined;
  }
};

/** The SQLSTATE and constraint of a database error, or undefined when it is not one. */
export const postgresFault = (error: unknown): PostgresFault | undefined => {
  for (const at of causes(error)) {
    if ("code" in at && typeof at.code === "string" && /^[0-9A-Z]{5}$/.test(at.code)) {
      const constraint = "constraint" in at && typeof at.constraint === "string" ? at.constraint : undefined;
      return { code: at.code, ...(constraint === undefined ? {} : { constraint }) };
    }
  }
  return undefined;
};

/**
 * The database could not be reached, or its answer was lost. Carries no SQL and no parameters: drizzle's own message holds both
 * and must not reach a log or a client.
 */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";

  /** Reads an error; undefined when it is a fault of the statements, which would fail again. */
  static from(error: unknown): StoreUnavailable | undefined {
    const fault = postgresFault(error);
    if (fault !== undefined) {
      const transient = TRANSIENT_CODES.has(fault.code) || TRANSIENT_CLASSES.has(fault.code.slice(0, 2));
      return transient ? new StoreUnavailable(`the database refused for now (${fault.code})`) : undefined;
    }
    const chain = [...causes(error)];
    const named = (name: string) => chain.some((at) => "name" in at && at.name === name);
    // The driver wraps whatever its fetch threw; a TypeError outside that wrapper is a fault of ours and must not look like the network's.
    if (named("NeonDbError")) {
      return new StoreUnavailable(
        named("TimeoutError") ? "the database did not answer in time" : "the database could not be reached",
      );
    }
    return undefined;
  }
}

/** The run no longer holds its session's lease: another run took over, and this one must write nothing more. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
  constructor() {
    super("the run lost its session to another run");
  }
}
