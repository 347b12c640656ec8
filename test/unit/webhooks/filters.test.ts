/** Which events a trigger takes, and what its payload may be. */
import { describe, expect, it } from "vitest";
import { type Filter, isOwn, passes } from "../../../src/webhooks/filters.ts";
import { formOf, keptHeaders, readPayload } from "../../../src/webhooks/payload.ts";
import { isTimeZone, nextTick, scheduleProblem } from "../../../src/webhooks/schedule.ts";

const received = {
  headers: { "x-github-event": "issues", "x-count": "3" },
  payload: { action: "opened", n: 3, on: true, labels: ["bug", "p1"], issue: { title: "A bug", none: null } },
};

describe("a filter", () => {
  const cases: readonly (readonly [Filter, boolean])[] = [
    [{ path: "payload.action", equals: "opened" }, true],
    [{ path: "payload.action", equals: "closed" }, false],
    [{ path: "payload.action", not_equals: "closed" }, true],
    [{ path: "payload.missing", not_equals: "closed" }, true],
    [{ path: "payload.n", equals: 3 }, true],
    [{ path: "payload.n", equals: "3" }, false],
    [{ path: "headers.x-count", equals: 3 }, true],
    [{ path: "payload.on", equals: true }, true],
    [{ path: "payload.action", in: ["opened", "edited"] }, true],
    [{ path: "payload.action", in: ["edited"] }, false],
    [{ path: "payload.action", not_in: ["edited"] }, true],
    [{ path: "payload.issue.title", exists: true }, true],
    [{ path: "payload.issue.none", exists: true }, false],
    [{ path: "payload.issue.none", exists: false }, true],
    [{ path: "payload.constructor", exists: true }, false],
    [{ path: "payload.issue.title", prefix: "A " }, true],
    [{ path: "payload.issue.title", suffix: "bug" }, true],
    [{ path: "payload.n", prefix: "3" }, false],
    [{ path: "payload.issue.title", contains: "bu" }, true],
    [{ path: "payload.labels", contains: "bug" }, true],
    [{ path: "payload.labels", contains: "bu" }, false],
    [{ path: "payload.labels.1", equals: "p1" }, true],
  ];
  it.each(cases)("%j", (filter, expected) => {
    expect(passes([filter], received)).toBe(expected);
  });

  it("has to hold together with all the others", () => {
    const opened = { path: "payload.action", equals: "opened" };
    expect([passes([], received), passes([opened, { path: "payload.n", equals: 4 }], received)]).toEqual([true, false]);
  });
});

describe("the agent's own events", () => {
  const github = (sender: object) => ({ payload: { sender } });
  const slack = (event: object) => ({ payload: { event } });

  it("of GitHub are those of bots, and of senders that the trigger names", () => {
    expect(isOwn("github", {}, github({ login: "agent[bot]", type: "Bot" }))).toBe(true);
    expect(isOwn("github", {}, github({ login: "octocat", type: "User" }))).toBe(false);
    expect(isOwn("github", { senders: ["octocat"] }, github({ login: "octocat", type: "User" }))).toBe(true);
    expect(isOwn("github", { ignore_bots: false }, github({ login: "dependabot[bot]", type: "Bot" }))).toBe(false);
  });

  it("of Slack are messages with a bot's id, edited ones too", () => {
    expect(isOwn("slack", {}, slack({ type: "message", bot_id: "B1" }))).toBe(true);
    expect(isOwn("slack", {}, slack({ subtype: "message_changed", message: { bot_id: "B1" } }))).toBe(true);
    expect(isOwn("slack", {}, slack({ subtype: "bot_message" }))).toBe(true);
    expect(isOwn("slack", {}, slack({ type: "app_mention", user: "U1" }))).toBe(false);
    expect(isOwn("slack", { senders: ["U1"] }, slack({ type: "app_mention", user: "U1" }))).toBe(true);
  });

  it("of Linear are those of no user", () => {
    expect(isOwn("linear", {}, { payload: { actor: { type: "OauthClient" } } })).toBe(true);
    expect(isOwn("linear", {}, { payload: { actor: { type: "user" } } })).toBe(false);
    expect(isOwn("linear", {}, { payload: {} })).toBe(false);
  });
});

describe("a payload", () => {
  const read = (text: string, form: "json" | "form" = "json") => {
    const outcome = readPayload(new TextEncoder().encode(text), form);
    return outcome.kind === "read" ? outcome.payload : outcome.problem;
  };

  it.each([
    ["", "empty"],
    ["  ", "empty"],
    ["{", "not_json"],
    [`${"[".repeat(65)}${"]".repeat(65)}`, "too_deep"],
    ["[".repeat(100_000), "too_deep"],
    [`[${"0,".repeat(100_001)}0]`, "too_many_values"],
  ])("%.20s... is not read", (text, problem) => {
    expect(read(text)).toBe(problem);
  });

  it("that is no UTF-8 is not read", () => {
    expect(readPayload(new Uint8Array([0x22, 0xff, 0x22]), "json")).toEqual({ kind: "problem", problem: "not_utf8" });
  });

  it("may be as deep as any real one, and hold commas in its texts", () => {
    expect(read(`${"[".repeat(64)}${"]".repeat(64)}`)).toEqual(expect.anything());
    expect(read(JSON.stringify({ a: ",".repeat(200_000) }))).toEqual({ a: ",".repeat(200_000) });
  });

  it("of a form is its `payload`, or its fields", () => {
    expect(read(`payload=${encodeURIComponent('{"a":1}')}`, "form")).toEqual({ a: 1 });
    expect(read("command=%2Fx&text=a+b", "form")).toEqual({ command: "/x", text: "a b" });
    expect(read("", "form")).toBe("empty");
  });

  it("is of a content type that the scheme has", () => {
    const types = [
      "application/json",
      "application/json; charset=utf-8",
      "application/cloudevents+json",
      "text/json",
      "",
      "application/jsonx",
      "application/x-www-form-urlencoded",
    ];
    expect(types.map((type) => formOf(type, true))).toEqual([
      "json",
      "json",
      "json",
      undefined,
      undefined,
      undefined,
      "form",
    ]);
    expect(formOf("application/x-www-form-urlencoded", false)).toBeUndefined();
  });

  it("is kept with the headers that say what it is, and none that proves or hides something", () => {
    const headers = {
      "x-github-event": "push",
      "x-hub-signature-256": "sha256=0",
      authorization: "Bearer x",
      cookie: "a",
      "x-gitlab-token": "t",
      "cf-connecting-ip": "1.2.3.4",
      "x-sig": "0",
    };
    expect(keptHeaders(headers, ["x-sig"])).toEqual({ "x-github-event": "push" });
  });
});

describe("a schedule", () => {
  const at = Date.parse("2026-03-28T20:00:00Z");

  it("is meant in its time zone, over a change of the clocks", () => {
    const daily = { cron: "30 9 * * *", time_zone: "Europe/Berlin" };
    const first = nextTick(daily, Date.parse("2026-03-27T20:00:00Z"));
    expect([first, nextTick(daily, at)]).toEqual(["2026-03-28T08:30:00.000Z", "2026-03-29T07:30:00.000Z"]);
  });

  it.each(["* * * * * *", "61 * * * *", "hello", "", "0 0 30 2 *"])("%s is refused", (cron) => {
    expect(scheduleProblem({ cron, time_zone: "UTC" }, at)).not.toBeNull();
  });

  it("may have a nickname; zones must be known", () => {
    expect(scheduleProblem({ cron: "* * * *", time_zone: "UTC" }, at)).toBe(
      "expected five fields (minute, hour, day of month, month, day of week), found 4",
    );
    expect(scheduleProblem({ cron: "@daily", time_zone: "UTC" }, at)).toBeNull();
    expect([isTimeZone("Europe/Berlin"), isTimeZone("Mars/Base")]).toEqual([true, false]);
  });
});
