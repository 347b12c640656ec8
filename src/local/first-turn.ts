/** The first thing that a person may try: a turn, streamed, from a shell. */

/** @param key an API key, or the shell variable that holds one */
export const firstTurn = (origin: string, key: string): string => `curl -N ${origin}/v1/sessions/key:demo/turns \\
  -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
  -d '{"input": "write /notes.md: hango was here", "create": true, "stream": true}'`;
