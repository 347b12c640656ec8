/**
 * The guides do what they say: their blocks marked `sh` are run from the first to the last, as they are printed. The test's own are only what
 * a reader puts in (the address and the key) and the receivers. A block after `<!-- not run: why -->` is left out.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ROOT, readPage, runBlocks, shellBlocks } from "../support/pages.ts";
import {
  ADMIN_KEY,
  type Call,
  callerOf,
  makeTenant,
  startTestPlatform,
  type Tenant,
  type TestPlatform,
} from "../support/platform.ts";

interface Received {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

let platform: TestPlatform;
let tenant: Tenant;
let call: Call;
let server: Server;
let receiver: string;
let received: Received[];
let arrived: PromiseWithResolvers<void>;
/** Where the reader's shell is: what a page writes is written there. */
let folder: string;

const addressOf = (of: Server): string => `127.0.0.1:${(of.address() as AddressInfo).port}`;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hango-docs-"));
  platform = await startTestPlatform();
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    received.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.writeHead(204).end();
    arrived.resolve();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  receiver = `http://${addressOf(server)}`;
}, 120_000);
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await platform.close();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  received = [];
  arrived = Promise.withResolvers();
  tenant = await makeTenant(platform.database);
  call = callerOf(platform.url, tenant);
});

/** A person's second is a machine's twentieth; and the project's commands are its own, wherever the reader's files are. */
const SHELL_OF_A_TEST = `sleep() { command sleep 0.05; }\nnpm() { command npm --prefix "${ROOT}" "$@"; }`;

/** A port that nobody has at this moment, for a server that the page itself starts. */
const freeAddress = async (): Promise<string> => {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = addressOf(probe);
  await new Promise((resolve) => probe.close(resolve));
  return address;
};

/** What a reader has in the shell who followed an earlier page. */
const readersShell = (): string => `BASE=${platform.url}; KEY=${tenant.key}`;

/** Runs blocks in one shell, as somebody does who pastes them one after the other; stops at the first command that fails. */
const run = async (blocks: readonly string[]): Promise<string> => {
  const [ownHost = "", ownPort = ""] = (await freeAddress()).split(":");
  const script = blocks
    .join("\n")
    .replaceAll("http://127.0.0.1:8787", platform.url)
    .replaceAll("hango_...", tenant.key)
    .replaceAll("HANGO_API_KEY=...", `HANGO_API_KEY=${tenant.key}`)
    .replaceAll("https://hango.example ", `${platform.url} `)
    .replaceAll("http://127.0.0.1:PORT/_sim", `${platform.simulator.url}/_sim`)
    .replaceAll("https://example.com/", `${receiver}/`)
    .replaceAll("127.0.0.1:9099", `${ownHost}:${ownPort}`)
    .replaceAll("listen(9099", `listen(${ownPort}`);
  const shell = spawn("bash", ["-euo", "pipefail", "-c", `${SHELL_OF_A_TEST}\n${script}`], {
    cwd: folder,
    detached: true,
    env: { ...process.env, HANGO_ADMIN_KEY: ADMIN_KEY, PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
    stdio: ["ignore", "pipe", "pipe"],
  });
  try {
    const output: Buffer[] = [];
    const errors: Buffer[] = [];
    shell.stdout.on("data", (chunk: Buffer) => output.push(chunk));
    shell.stderr.on("data", (chunk: Buffer) => errors.push(chunk));
    const [code] = await once(shell, "exit");
    const said = Buffer.concat(output).toString();
    if (code !== 0) throw new Error(`exit ${code} of a page's shell\n${said}\n${Buffer.concat(errors).toString()}`);
    expect(said).not.toContain('"type":"error"');
    return said;
  } finally {
    // With it go those that it started, also where it did not come to their end.
    try {
      if (shell.pid !== undefined) process.kill(-shell.pid, "SIGKILL");
    } catch {
      // They have ended.
    }
  }
};

/** What a session says, oldest first, as one text a message. */
const said = async (key: string): Promise<readonly string[]> => {
  const { body } = await call("GET", `/v1/sessions/key:${encodeURIComponent(key)}/messages?order=asc`);
  return body.data.map((message: { content: { text?: string }[] }) => message.content.map(({ text }) => text).join(""));
};

describe("README.md", () => {
  it("its first turn streams the run and writes the file", async () => {
    const output = await run(await shellBlocks("README.md"));
    expect(output).toContain("event: run.completed");
    expect((await call("GET", "/v1/sessions/key:demo/files/notes.md")).body).toBe("hango was here");
  }, 60_000);
});

describe("docs/history.md", () => {
  it("rewinds, retries and forks as the page shows", async () => {
    const blocks = await shellBlocks("docs/history.md");
    expect(blocks).toHaveLength(4);
    const output = await run(blocks);
    expect(output).toMatch(/"undone": ?\{[^}]*"first_seq": ?5[^}]*\}/);
    const log = await said("support-1");
    expect(log[0]).toBe("one");
    // "two" was undone and is there again, with an answer of its own.
    expect(log.filter((text) => text === "two")).toHaveLength(1);
    expect(log).toHaveLength(4);
    const fork = await call("GET", "/v1/sessions/key:support-1-other-way");
    expect([fork.body.title, fork.body.forked_at_seq]).toEqual(["Another way", 2]);
  }, 60_000);
});

describe("docs/operations.md", () => {
  it("its doctor finds everything in order, and its tenant and key are made and used", async () => {
    const blocks = await shellBlocks("docs/operations.md");
    expect(blocks).toHaveLength(6);
    const output = await run([`export HANGO_ADMIN_KEY=${ADMIN_KEY}`, ...blocks]);
    expect(output.match(/^(?:ok|skip|FAIL) /gm)).toEqual([...Array(6).fill("ok "), "skip "]);
    expect(output).toMatch(/"name": ?"production"[^}]*"secret": ?"hango_\w{40}"/);
    expect(output).toContain("event: run.completed");
    expect(output).toMatch(/"purpose": ?"turn"/);
  }, 60_000);

  it("every anchor that an alert links to is there", async () => {
    const text = await readPage("docs/operations.md");
    const anchors = [...text.matchAll(/^#{2,3} (.+)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\w -]/g, "")
        .replaceAll(" ", "-"),
    );
    expect(anchors).toEqual(
      expect.arrayContaining([
        "runbook",
        "thrash",
        "cache-collapse",
        "wedged-runs",
        "dead-letters",
        "provider-errors",
        "overhead",
        "summariser-cost",
      ]),
    );
    const linked = [...text.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor]) => anchor);
    expect(linked.filter((anchor) => !anchors.includes(anchor ?? ""))).toEqual([]);
  });
});

describe("docs/skills.md", () => {
  it("gives a session skills, loads one and shows what is listed", async () => {
    const blocks = await shellBlocks("docs/skills.md");
    expect(blocks).toHaveLength(4);
    const output = await run(blocks);
    expect(output).toContain("/skills/refunds/references/regions.md (23 bytes)");
    expect(output).toMatch(/"listed": ?\["on-call","refunds"\]/);
  }, 60_000);
});

describe("docs/memory.md", () => {
  it("what is written to memory, by the caller or by the model, is known in the next turn", async () => {
    const blocks = await shellBlocks("docs/memory.md");
    expect(blocks).toHaveLength(2);
    await run(blocks);
    const file = await call("GET", "/v1/sessions/key:memory-1/files/memories/AGENTS.md");
    expect(file.body).toBe(
      "Answer in one sentence. The customer is on the Basic plan.\n- invoices go to accounting@example.org",
    );
    const log = await said("memory-1");
    expect(log.find((_, at) => log[at - 1]?.startsWith("What plan"))).toContain("The customer is on the Basic plan.");
    expect(log.at(-1)).toContain("accounting@example.org");
  }, 60_000);
});

describe("docs/subagents.md", () => {
  it("a task is given away, and its session is looked into", async () => {
    const blocks = await shellBlocks("docs/subagents.md");
    expect(blocks).toHaveLength(2);
    const output = await run(blocks);
    expect(output).toContain("The tide turns at nine.");
    expect(output).toMatch(/"subagent_type": ?"reader"/);
    expect((await said("harbour-1"))[0]).toBe("delegate to reader: read /notes.md");
  }, 60_000);
});

/** A session of the pages that begin in the middle. */
const supportSession = `${"curl"} -sS "$BASE/v1/sessions/key:support-1/turns" -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \
  -d '{"input": "write /invoice.md: 17 is open", "create": true}'`;

describe("docs/context.md", () => {
  it("changes the settings of a session, and rehearses a compaction", async () => {
    const blocks = await shellBlocks("docs/context.md");
    expect(blocks).toHaveLength(2);
    const output = await run([readersShell(), supportSession, ...blocks]);
    expect(output).toContain('"summarizer_model":"claude-haiku-5-5"');
    expect((await call("GET", "/v1/sessions/key:support-1")).body.context.keep_frac).toBe(0.2);
  }, 60_000);
});

describe("docs/micro-compaction.md", () => {
  it("switches it on, and reports what it has brought", async () => {
    const blocks = await shellBlocks("docs/micro-compaction.md");
    expect(blocks).toHaveLength(2);
    const output = await run([readersShell(), supportSession, ...blocks]);
    expect(output).toContain("Occupancy: ");
    expect((await call("GET", "/v1/sessions/key:support-1")).body.context.micro_compaction).toEqual({
      every_n_turns: 3,
    });
  }, 60_000);
});

describe("docs/learning/10-context-management.md", () => {
  it("shows clips, summaries, batches, caches, overflows and voided generations as it says", async () => {
    const blocks = await shellBlocks("docs/learning/10-context-management.md");
    expect(blocks).toHaveLength(8);
    const output = await run(blocks);
    for (const words of ['"type":"context.compacted"', "Messages 1 to", '"usage":', '"generation":1'])
      expect(output, words).toContain(words);
  }, 120_000);
});

describe("docs/api.md", () => {
  it("does each task with curl", async () => {
    const blocks = await shellBlocks("docs/api.md");
    expect(blocks.length).toBeGreaterThan(12);
    const output = await run(blocks.slice(0, -2));
    expect(output).toContain("event: run.completed");
    expect(output).toContain("12 degrees, rain");
    expect(output).toContain("messages.jsonl");
    // What is to fail, and what is gone.
    expect(await run([blocks[0] ?? "", ...blocks.slice(-2)])).toMatch(/^404\n"code":"not_found"/);
  }, 90_000);

  it("does each task with TypeScript", async () => {
    const blocks = await runBlocks("docs/api.md", "ts");
    expect(blocks).toHaveLength((await shellBlocks("docs/api.md")).length);
    await writeFile(join(folder, "api.mts"), blocks.join("\n"));
    const output = await run([
      `export HANGO_URL=${platform.url} HANGO_KEY=${tenant.key}`,
      `${JSON.stringify(process.execPath)} api.mts`,
    ]);
    expect(output).toMatch(/^true completed /m);
    expect(output).toContain("12 degrees and rain in Oslo");
    expect(output).toMatch(/\d+ run\.completed/);
    expect(output).toContain("[ '1 user', '2 assistant' ]");
  }, 90_000);
});

describe("docs/webhooks.md", () => {
  it("GitHub and Slack make turns whose replies are seen, and outbound events arrive signed", async () => {
    const blocks = await shellBlocks("docs/webhooks.md");
    expect(blocks).toHaveLength(5);
    const output = await run(blocks);

    // GitHub: the delivery is accepted, the run has answered, and the reply went to the server that the page starts.
    expect(output).toMatch(/\{"delivery_id":"dlv_\w+","status":"accepted"\}/);
    const github = await said("github:octo/hello#7");
    expect(github).toHaveLength(2);
    expect(github[0]).toContain("Issue `7` was opened: `It breaks` `On start.`");
    const reply = /^\{"body":".*\}$/m.exec(output.replaceAll("}{", "}\n{"));
    expect(JSON.parse(reply?.[0] ?? "null").body).toBe((await said("github:octo/hello#8"))[1]);

    // Slack: the handshake, the event, the answer.
    expect(output).toContain('{"challenge":"3eZbrw1a"}200\n200\n');
    const slack = await said("slack:T1:C1:1700000000.000100");
    expect(slack).toHaveLength(2);
    expect(slack[0]).toContain("`U1` says: `hello`");

    // Outbound: the callback and the endpoint are told, each signed with its own secret.
    while (received.length < 2) {
      await arrived.promise;
      arrived = Promise.withResolvers();
    }
    const callbackSecret = (await call("GET", "/v1/webhook_endpoints/callback_secret")).body.secret;
    const secrets: Readonly<Record<string, string>> = {
      "/hango": /"secret":"(whsec_[^"]+)"/.exec(output)?.[1] ?? "",
      "/done": callbackSecret,
    };
    expect(received.map(({ path }) => path).toSorted()).toEqual(["/done", "/hango"]);
    for (const { path, body, headers } of received) {
      const event = new Webhook(secrets[path] ?? "").verify(body, headers as Record<string, string>);
      expect(event).toMatchObject({ type: "run.completed", data: { session_key: "ticket-1" } });
    }

    // The page's receiver takes what was sent, and nothing that was changed.
    const [receive = ""] = await runBlocks("docs/webhooks.md", "ts");
    const sent = received.find(({ path }) => path === "/hango");
    await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
    await writeFile(join(folder, "receive.mts"), receive);
    await writeFile(join(folder, "sent.json"), JSON.stringify(sent));
    await writeFile(
      join(folder, "try.mts"),
      `import { readFileSync } from "node:fs";
import { receive } from "./receive.mts";
const { body, headers } = JSON.parse(readFileSync("sent.json", "utf8"));
for (const text of [body, body.replace("ticket-1", "ticket-2")])
  console.log((await receive(new Request("https://example.com/hango", { method: "POST", headers, body: text }))).status);`,
    );
    const tried = await run([`HANGO_WEBHOOK_SECRET=${secrets["/hango"]} ${JSON.stringify(process.execPath)} try.mts`]);
    expect(tried).toMatch(/^evt_\w+ run\.completed [\s\S]*\n204\n401\n$/);
  }, 90_000);
});
