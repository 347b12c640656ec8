/** The dashboard and the alert rules, as the files that are shipped have them: every query with where it stands. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";

const FOLDER = join(import.meta.dirname, "../../docs/grafana");
export const ALERTS = join(FOLDER, "alerts.yaml");
export const DASHBOARD = join(FOLDER, "hango.json");

export interface Query {
  /** Panel and query, or the rule. */
  readonly where: string;
  readonly language: "promql" | "traceql";
  readonly text: string;
}

export interface DashboardPanel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly type: string; readonly uid: string };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly {
    readonly refId: string;
    readonly expr?: string;
    readonly query?: string;
    readonly datasource: { readonly type: string; readonly uid: string };
  }[];
}

export interface Dashboard {
  readonly uid: string;
  readonly schemaVersion: number;
  readonly templating: { readonly list: readonly { readonly name: string; readonly type: string }[] };
  readonly panels: readonly DashboardPanel[];
}

export const readDashboard = async (): Promise<Dashboard> => JSON.parse(await readFile(DASHBOARD, "utf8"));

/** @throws Error at a target without a query */
export const dashboardQueries = async (): Promise<readonly Query[]> =>
  (await readDashboard()).panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ refId, expr, query }): Query => {
      const where = `${title} ${refId}`;
      if (expr !== undefined) return { where, language: "promql", text: expr };
      if (query !== undefined) return { where, language: "traceql", text: query };
      throw new Error(`${where} has no query`);
    }),
  );

export interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Every alert rule, of whatever group. */
export const alertRules = async (): Promise<readonly Rule[]> => {
  const file: { readonly groups: readonly { readonly rules: readonly Rule[] }[] } = parse(
    await readFile(ALERTS, "utf8"),
  );
  return file.groups.flatMap(({ rules }) => rules);
};
