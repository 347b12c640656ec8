import { describe, expect, test } from "vitest";
import { welcome, welcomeJson } from "../../../src/local/welcome.ts";

const URL = "http://127.0.0.1:8787";
const RUNNING = {
  url: URL,
  apiKey: "hango_key",
  tracesUrl: `${URL}/_local/traces`,
  simulator: { url: "http://127.0.0.1:9000" },
};

describe("what npm start says", () => {
  test("names the addresses of everything, the pages of traces among them, and a turn to try", () => {
    const lines = welcome(RUNNING).split("\n");
    expect(lines).toContain(`hango is running at ${URL}`);
    expect(lines).toContain(`API documentation   ${URL}/docs`);
    expect(lines).toContain(`Traces and metrics  ${URL}/_local/traces`);
    expect(lines).toContain("What they were sent http://127.0.0.1:9000/_sim/requests");
    expect(lines).toContain(`curl -N ${URL}/v1/sessions/key:demo/turns \\`);
    expect(lines).toContain('  -H "Authorization: Bearer hango_key" -H "Content-Type: application/json" \\');
  });

  test("says where traces go when they are not kept here, and that the models are real", () => {
    const lines = welcome({ ...RUNNING, tracesUrl: undefined, simulator: undefined }).split("\n");
    expect(lines).toContain("Traces and metrics  go to OTEL_EXPORTER_OTLP_ENDPOINT");
    expect(lines).toContain("Models              the Messages API that you configured");
  });

  test("is one line of JSON for a script", () => {
    expect(JSON.parse(welcomeJson(RUNNING))).toEqual({
      url: URL,
      api_key: "hango_key",
      traces_url: `${URL}/_local/traces`,
    });
    expect(JSON.parse(welcomeJson({ ...RUNNING, tracesUrl: undefined }))).toMatchObject({ traces_url: null });
  });
});
