/** The last door that spans pass. */
import { expect, it } from "vitest";
import { strip } from "../../../src/telemetry/strip.ts";

it("takes out what a caller chose: the address, and headers of any text; the rest stays", () => {
  const span = {
    attributes: {
      "http.request.method": "POST",
      "http.route": "/v1/sessions/{id}/turns",
      "url.full": "https://hango.test/v1/sessions/key:private/turns?a=b",
      "url.path": "/v1/sessions/key:private/turns",
      "url.query": "?a=b",
      "user_agent.original": "the words of a caller",
      "http.mime_type": "text/plain; note=private",
      "http.accepts": "gzip, private",
    },
    events: [],
  };
  strip(span);
  expect(span.attributes).toEqual({ "http.request.method": "POST", "http.route": "/v1/sessions/{id}/turns" });
});
