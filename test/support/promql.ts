/** What a PromQL expression asks for: its metrics, its matchers, and the labels that it groups by. Read by Prometheus's own grammar, without mercy. */
import type { SyntaxNode } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";

export interface Matcher {
  readonly label: string;
  readonly op: "=" | "!=" | "=~" | "!~";
  readonly value: string;
}

/** One selector. */
export interface Selection {
  readonly metric: string;
  readonly matchers: readonly Matcher[];
  /** Labels that it is grouped, joined or relabelled by around it. */
  readonly groupedBy: readonly string[];
}

/** What Grafana puts into a query before it sends it, and rules have not. */
const VARIABLES: Readonly<Record<string, string>> = {
  $__rate_interval: "5m",
  $__interval: "1m",
  $__range: "1h",
  $job: "hango",
};

/**
 * Puts values in the place of Grafana's variables.
 * @param values by name, with its `$`; none for those that are to stay as they are in a test of the grammar
 * @throws Error for a variable that has none
 */
export const substituted = (expression: string, values: Readonly<Record<string, string>> = VARIABLES): string =>
  expression.replaceAll(/\$\{?(\w+)\}?/g, (written, name: string) => {
    const value = values[`$${name}`];
    if (value === undefined) throw new Error(`${expression}: ${written} is no variable that is known here`);
    return value;
  });

const kids = (node: SyntaxNode): readonly SyntaxNode[] => {
  const found: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) found.push(child);
  return found;
};

const isOperator = (text: string): text is Matcher["op"] => ["=", "!=", "=~", "!~"].includes(text);

/**
 * Every selector of an expression.
 * @param expression without variables
 * @throws Error at what Prometheus's grammar does not know, with its place, and at a selector without a metric's name
 */
export const selectionsOf = (expression: string): readonly Selection[] => {
  const text = (node: SyntaxNode) => expression.slice(node.from, node.to);

  const matcherOf = (node: SyntaxNode): Matcher => {
    const [label, op, value] = kids(node).map(text);
    if (label === undefined || op === undefined || value === undefined || !isOperator(op))
      throw new Error(`${expression}: cannot read the matcher ${text(node)}`);
    return { label, op, value: JSON.parse(value) as string };
  };

  const labelsOf = (node: SyntaxNode): readonly string[] =>
    kids(node).flatMap((child) => (child.name === "LabelName" ? [text(child)] : labelsOf(child)));

  const visit = (node: SyntaxNode, groupedBy: readonly string[]): readonly Selection[] => {
    if (node.type.isError)
      throw new Error(
        `${expression}: the grammar breaks off at ${node.from}: "${expression.slice(node.from, node.from + 30)}"`,
      );
    const children = kids(node);
    if (node.name === "VectorSelector") {
      const metric = children.find(({ name }) => name === "Identifier");
      if (metric === undefined) throw new Error(`${expression}: ${text(node)} names no metric`);
      const matchers = children.filter(({ name }) => name === "LabelMatchers").flatMap(kids);
      for (const child of matchers) if (child.type.isError) visit(child, groupedBy);
      return [{ metric: text(metric), matchers: matchers.map(matcherOf), groupedBy }];
    }
    // Of an aggregation what it groups by, of two sides what they are joined by: each concerns all selectors below.
    const named = children
      .filter(({ name }) => name === "AggregateModifier" || name === "MatchingModifierClause")
      .flatMap(labelsOf);
    const within = [...new Set([...groupedBy, ...named])];
    return children.flatMap((child) => visit(child, within));
  };

  return visit(parser.parse(expression).topNode, []);
};
