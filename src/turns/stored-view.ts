/** Between the view as it is stored and the state that is rendered. */
import { EMPTY_VIEW, type Generation, type ViewState } from "../context/view-state.ts";
import { seq } from "../protocol/ids.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import type { StoredGeneration, StoredView } from "../store/view.ts";

/** A generation as it was committed. */
export const generationOf = ({ sections, ...generation }: StoredGeneration): Generation => ({
  ...generation,
  ...(JSON.parse(sections) as Pick<Generation, "sections" | "rendered">),
});

const storedGenerationOf = ({ sections, rendered, ...generation }: Generation): StoredGeneration => ({
  ...generation,
  sections: JSON.stringify({ sections, rendered }),
});

/**
 * The view that a session has now.
 * @param clipTokens for a session whose view was never changed; later ones carry their own (V2)
 */
export const viewStateOf = (
  { view, thinkingFloor }: Pick<LoadedSession, "view" | "thinkingFloor">,
  clipTokens: number,
): ViewState =>
  view === null
    ? { ...EMPTY_VIEW, clipTokens, thinkingFloor: seq(thinkingFloor) }
    : {
        ...view,
        skills: JSON.parse(view.skills),
        thinkingFloor: seq(thinkingFloor),
        generation: view.generation === null ? null : generationOf(view.generation),
      };

/** A view as it is stored. */
export const storedViewOf = ({ generation, skills, ...view }: ViewState): StoredView => ({
  ...view,
  skills: JSON.stringify(skills),
  generation: generation === null ? null : storedGenerationOf(generation),
});
