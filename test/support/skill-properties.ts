/** What holds of skills in every session (R5), read from the log and the requests alone. */
import { contains } from "../../src/context/view-state.ts";
import type { LogRow, ViewMessage } from "../../src/protocol/messages.ts";
import type { Sent, SessionProperty } from "./session-record.ts";

interface Block {
  readonly type: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: { readonly name?: string };
  readonly tool_use_id?: string;
  readonly content?: unknown;
}

interface Load {
  readonly id: string;
  readonly name: string;
  readonly seq: number;
  readonly content: unknown;
}

const blocksOf = ({ content }: LogRow | ViewMessage): readonly Block[] => JSON.parse(content) as readonly Block[];

const loadsIn = (log: readonly LogRow[]): readonly Load[] => {
  const names = new Map<string, string>();
  return log.flatMap((row) => {
    if (row.content.includes('"load_skill"'))
      for (const { id = "", name, input } of blocksOf(row)) if (name === "load_skill") names.set(id, input?.name ?? "");
    if (row.origin !== "tool" || names.size === 0) return [];
    return blocksOf(row).flatMap(({ tool_use_id: id = "", content }) => {
      const name = names.get(id);
      return name === undefined || content === "outcome unknown" ? [] : [{ id, name, seq: row.seq, content }];
    });
  });
};

/** Whether a text is one that is named when it is lost. */
const isLong = ({ content }: Load): boolean => typeof content === "string" && content.length > 5_000;

const logged = new WeakMap<readonly LogRow[], readonly Load[]>();

/** The loads of a session's log, found once. */
const loadsOf = (log: readonly LogRow[]): readonly Load[] => {
  const known = logged.get(log);
  if (known !== undefined) return known;
  const loads = loadsIn(log);
  logged.set(log, loads);
  return loads;
};

/** The call that loads a skill again, as the marker has it. */
const reload = (name: string): string => `load_skill {"name":"${name}"}`;

const shownResults = ({ request }: Sent): ReadonlyMap<string, unknown> =>
  new Map(
    request.messages.flatMap((message) =>
      message.content.includes('"tool_result"')
        ? blocksOf(message).flatMap(({ tool_use_id: id, content }) =>
            id === undefined ? [] : [[id, content] as const],
          )
        : [],
    ),
  );

export const skillsWholeOrMarked: SessionProperty = {
  name: "a skill is shown whole or as the marker with the call that loads it again, never in part (R5)",
  check: ({ sent, log }) => {
    const loads = loadsOf(log);
    if (loads.length === 0) return [];
    return sent.flatMap((each, index) => {
      const shown = shownResults(each);
      return loads.flatMap(({ id, name, content }) => {
        const now = shown.get(id);
        if (now === undefined || now === content) return [];
        const isMarker = typeof now === "string" && now.startsWith(`[skill "${name}"`) && now.includes(reload(name));
        return isMarker ? [] : [`request ${index}: ${name} of ${id} is shown as ${String(now).slice(0, 80)}`];
      });
    });
  },
};

export const skillsNamed: SessionProperty = {
  name: "whatever the summariser does, a skill whose text was covered is named with that call (R5)",
  check: ({ sent, log }) => {
    const loads = loadsOf(log);
    if (loads.length === 0) return [];
    return sent.flatMap((each, index) => {
      const { view, request, logLength } = each;
      const covered = view.generation?.covered ?? [];
      const lost = loads.filter((load) => contains(covered, load.seq) && isLong(load));
      if (lost.length === 0) return [];
      const handoff = request.messages.find((message) => message.handoff === true)?.content ?? "";
      const shown = shownResults(each);
      const newest = new Map(lost.map(({ name, seq }) => [name, seq]));
      return [...newest].flatMap(([name, last]) => {
        const named = JSON.stringify(reload(name)).slice(1, -1);
        const times = handoff.split(named).length - 1;
        const later = loads.filter((load) => load.name === name && load.seq > last && load.seq <= logLength);
        // What was loaded again is in the view, in one shape or the other; what was too much to load is found in the history only (V7).
        const isElsewhere = later.some(
          (load) => isLong(load) && (shown.has(load.id) || contains(view.hidden, load.seq)),
        );
        if (times === 1 || (times === 0 && isElsewhere)) return [];
        return [`request ${index}: ${name} is named ${times} times`];
      });
    });
  },
};
