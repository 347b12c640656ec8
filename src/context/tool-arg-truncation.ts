/**
 * ToolArgTruncation: the first step of the ladder, nested inside Compaction, so that a summary is made of what the view shows. It clips the
 * long arguments and results of older tool calls, which often makes a summary unnecessary. Never touches the log.
 */
import type { Seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { nextClipBoundary } from "./clip.ts";
import type { ViewState } from "./view-state.ts";

export interface Truncated {
  readonly view: ViewState;
  /** Newly clipped calls and results by the name of their tool. */
  readonly clippedByTool: Readonly<Record<string, number>>;
}

export const toolArgTruncation = {
  name: "ToolArgTruncation",
  /** The view with older rows shown clipped; null where that reclaims too little to break the prompt cache for (ladder step 2). */
  apply: (
    rows: readonly LogRow[],
    view: ViewState,
    windowTokens: number,
    estimateTokens: (text: string) => number,
    keptFrom?: () => Seq | null,
  ): Truncated | null => {
    const clip = nextClipBoundary(rows, view, windowTokens, estimateTokens, keptFrom);
    if (clip === null) return null;
    const { clippedBefore, skills, clippedByTool } = clip;
    return { view: { ...view, clippedBefore, skills }, clippedByTool };
  },
} as const;
