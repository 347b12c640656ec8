/** A tracer that keeps what it is told, for tests and for `npm run demo`: a tree of spans that can be compared and printed. */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Attributes, type AttributeValue, errorType, type Span, type SpanKind, type Tracer } from "./tracer.ts";

export interface RecordedEvent {
  readonly name: string;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
}

export interface RecordedSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly events: readonly RecordedEvent[];
  /** What it failed with, if it did. */
  readonly error: string | undefined;
  readonly ended: boolean;
  readonly remoteParent: string | undefined;
  readonly children: readonly RecordedSpan[];
}

export interface RecordingTracer extends Tracer {
  /** Spans without a parent, in the order they were started. */
  readonly roots: readonly RecordedSpan[];
  /** Every span, parents before children. */
  all(): readonly RecordedSpan[];
  /** The only span of this name. @throws Error when there is none or more than one */
  only(name: string): RecordedSpan;
  /** The tree as text: a line for each span and event. */
  print(): string;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
interface Node extends Mutable<Omit<RecordedSpan, "attributes" | "events" | "children">> {
  attributes: Record<string, AttributeValue>;
  events: RecordedEvent[];
  children: Node[];
}

const defined = (attributes: Attributes = {}): Record<string, AttributeValue> =>
  Object.fromEntries(
    Object.entries(attributes).filter((entry): entry is [string, AttributeValue] => entry[1] !== undefined),
  );

const flatten = (spans: readonly RecordedSpan[]): readonly RecordedSpan[] =>
  spans.flatMap((span) => [span, ...flatten(span.children)]);

const inWords = (attributes: Readonly<Record<string, AttributeValue>>): string =>
  Object.entries(attributes)
    .map(([name, value]) => ` ${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("");

const linesOf = (span: RecordedSpan, depth: number): readonly string[] => {
  const indent = "  ".repeat(depth);
  const state = `${span.error === undefined ? "" : ` !${span.error}`}${span.ended ? "" : " (open)"}`;
  return [
    `${indent}${span.name} [${span.kind}]${state}${inWords(span.attributes)}`,
    ...span.events.map((event) => `${indent}  * ${event.name}${inWords(event.attributes)}`),
    ...span.children.flatMap((child) => linesOf(child, depth + 1)),
  ];
};

/** Makes a tracer that starts empty. Ids are counted, so that two runs of a test record the same. */
export const recordingTracer = (): RecordingTracer => {
  const roots: Node[] = [];
  const nodes = new WeakMap<Span, Node>();
  const active = new AsyncLocalStorage<Node>();
  const ids = new WeakMap<Node, number>();
  let started = 0;

  const traceparentOf = (id: number): string => `00-${"1".padStart(32, "0")}-${id.toString(16).padStart(16, "0")}-01`;

  const handle = (node: Node, id: number): Span => {
    ids.set(node, id);
    const span: Span = {
      setAttributes: (attributes) => void Object.assign(node.attributes, defined(attributes)),
      addEvent: (name, attributes) => void node.events.push({ name, attributes: defined(attributes) }),
      fail: (type) => {
        node.error = type;
      },
      traceparent: () => traceparentOf(id),
    };
    nodes.set(span, node);
    return span;
  };

  const span: Tracer["span"] = (name, options, work) => {
    const node: Node = {
      name,
      kind: options.kind ?? "internal",
      attributes: defined(options.attributes),
      events: [],
      error: undefined,
      ended: false,
      remoteParent: options.remoteParent,
      children: [],
    };
    const parent = options.parent === undefined ? active.getStore() : nodes.get(options.parent);
    (parent?.children ?? roots).push(node);
    started += 1;
    const recorded = handle(node, started);
    return active.run(node, async () => {
      try {
        return await work(recorded);
      } catch (error) {
        node.error ??= errorType(error);
        throw error;
      } finally {
        node.ended = true;
      }
    });
  };

  return {
    span,
    traceparent: () => {
      const node = active.getStore();
      const id = node === undefined ? undefined : ids.get(node);
      return id === undefined ? undefined : traceparentOf(id);
    },
    roots,
    all: () => flatten(roots),
    only: (name) => {
      const [found, ...others] = flatten(roots).filter((candidate) => candidate.name === name);
      if (found === undefined || others.length > 0)
        throw new Error(`${found === undefined ? "no" : others.length + 1} spans are called ${name}`);
      return found;
    },
    print: () => roots.flatMap((root) => linesOf(root, 0)).join("\n"),
  };
};
