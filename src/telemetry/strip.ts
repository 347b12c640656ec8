/** What is taken out of a finished span before it leaves, whoever put it in: the last door, and the only one that all spans pass. */
import { isSecretName, redact } from "../protocol/redact.ts";

/** OpenTelemetry's values, of which only texts are looked at. */
type Attributes = Record<string, unknown>;

/** The parts of a finished span that hold values. */
export interface Strippable {
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string; readonly attributes?: Attributes }[];
}

/** Where the library puts what a caller chose: addresses, and headers of any text. */
const CALLERS = ["url.full", "url.query", "user_agent.original", "http.mime_type", "http.accepts"];

const withoutSecret = (value: unknown): unknown => (typeof value === "string" ? redact(value).text : value);

/** Whatever a span was given, by us or by the library, and with content captured too: no secret leaves with it (S6). */
const withoutSecrets = (attributes: Attributes): void => {
  for (const [name, value] of Object.entries(attributes)) {
    if (isSecretName(name)) attributes[name] = "[redacted named_secret]";
    else attributes[name] = Array.isArray(value) ? value.map(withoutSecret) : withoutSecret(value);
  }
};

/**
 * Takes out what may hold a caller's content: headers, queries, paths (they hold keys and file names) once the route is known, messages and
 * stacks of exceptions; and secrets wherever they stand. Changes the span.
 */
export const strip = ({ attributes, events }: Strippable): void => {
  for (const name of CALLERS) delete attributes[name];
  if (attributes["http.route"] !== undefined) delete attributes["url.path"];
  withoutSecrets(attributes);
  for (const event of events) {
    if (event.attributes === undefined) continue;
    withoutSecrets(event.attributes);
    if (event.name !== "exception") continue;
    delete event.attributes["exception.message"];
    delete event.attributes["exception.stacktrace"];
  }
};
