import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const BOOTSTRAP = join(import.meta.dirname, "../../../src/local/bootstrap.mjs");
const version = process.version.slice(1);

/** A project whose only package is Node, and an npm that "installs" it and writes down that it was called. */
let root: string;

const lockFile = (packages: object) => JSON.stringify({ packages: { "": {}, ...packages } });
const nodeOnly = { "node_modules/node": { version } };

const fakeNpm = (exitCode: number) => `#!/bin/sh
echo "$@" >> "${root}/npm-calls"
echo "noise of npm"
rm -rf node_modules && mkdir -p node_modules/.bin node_modules/node
echo '{}' > node_modules/node/package.json
sleep 0.3
ln -s "${process.execPath}" node_modules/.bin/node
cp package-lock.json node_modules/.package-lock.json
exit ${exitCode}
`;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "hango-bootstrap-"));
  await mkdir(join(root, "src/local"), { recursive: true });
  await mkdir(join(root, "fake"));
  await copyFile(BOOTSTRAP, join(root, "src/local/bootstrap.mjs"));
  await writeFile(join(root, "package-lock.json"), lockFile(nodeOnly));
  await writeFile(join(root, "exit.mjs"), "console.log(JSON.stringify(process.argv.slice(2))); process.exitCode = 7;");
  await setNpm(0);
});

afterEach(() => rm(root, { recursive: true, force: true }));

const setNpm = async (exitCode: number) => {
  await writeFile(join(root, "fake/npm"), fakeNpm(exitCode));
  await chmod(join(root, "fake/npm"), 0o755);
};

const start = (...args: readonly string[]): ChildProcess => {
  const { npm_execpath: _npm, ...env } = process.env;
  return spawn(process.execPath, [join(root, "src/local/bootstrap.mjs"), ...args], {
    env: { ...env, PATH: `${join(root, "fake")}:${process.env.PATH}` },
    stdio: ["ignore", "pipe", "pipe"],
  });
};

const finished = async (child: ChildProcess) => {
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (data: Buffer) => {
    stdout += data.toString();
  });
  child.stderr?.on("data", (data: Buffer) => {
    stderr += data.toString();
  });
  const [code] = await once(child, "close");
  return { code, stdout, stderr };
};

const npmCalls = async () =>
  (await readFile(join(root, "npm-calls"), "utf8").catch(() => "")).split("\n").filter(Boolean).length;

describe("the bootstrap", () => {
  test("installs on a fresh clone, keeps npm's output off standard output, and passes arguments and exit code on", async () => {
    const result = await finished(start("exit.mjs", "--json", "a b"));
    expect({ code: result.code, stdout: result.stdout }).toEqual({ code: 7, stdout: '["--json","a b"]\n' });
    expect(result.stderr).toContain("nothing is installed yet");
    expect(result.stderr).toContain("noise of npm");
  });

  test("does not install what is there", async () => {
    await finished(start("exit.mjs"));
    const result = await finished(start("exit.mjs"));
    expect(result).toEqual({ code: 7, stdout: "[]\n", stderr: "" });
    expect(await npmCalls()).toBe(1);
  });

  test.each([
    [
      "another version",
      { "node_modules/node": { version }, "node_modules/a": { version: "2.0.0" } },
      "a is 1.0.0, not 2.0.0",
    ],
    ["a package more", { ...nodeOnly, "node_modules/b": { version: "1.0.0" } }, "b is missing"],
  ])("installs again when the lock file lists %s", async (_name, packages, reason) => {
    await finished(start("exit.mjs"));
    await mkdir(join(root, "node_modules/a"));
    await writeFile(join(root, "node_modules/a/package.json"), "{}");
    await writeFile(
      join(root, "node_modules/.package-lock.json"),
      lockFile({ ...nodeOnly, "node_modules/a": { version: "1.0.0" } }),
    );
    await writeFile(join(root, "package-lock.json"), lockFile(packages));
    const result = await finished(start("exit.mjs"));
    expect(result.stderr).toContain(`(${reason})`);
    expect(await npmCalls()).toBe(2);
  });

  test("does not miss packages of other platforms, nor optional ones that npm left out", async () => {
    await finished(start("exit.mjs"));
    const others = {
      "node_modules/other-os": { version: "1.0.0", os: ["no-such-os"] },
      "node_modules/other-cpu": { version: "1.0.0", cpu: [`!${process.arch}`] },
      "node_modules/left-out": { version: "1.0.0", optional: true },
    };
    await writeFile(join(root, "package-lock.json"), lockFile({ ...nodeOnly, ...others }));
    expect((await finished(start("exit.mjs"))).stderr).toBe("");
  });

  test("installs again when the pinned Node does not run", async () => {
    await finished(start("exit.mjs"));
    await rm(join(root, "node_modules/.bin/node"));
    expect((await finished(start("exit.mjs"))).stderr).toContain("(the pinned Node does not run)");
  });

  test("ends with npm's exit code and a reason when the install fails, and does not run the script", async () => {
    await setNpm(3);
    const result = await finished(start("exit.mjs"));
    expect({ code: result.code, stdout: result.stdout }).toEqual({ code: 3, stdout: "" });
    expect(result.stderr).toContain("npm ci failed with exit code 3");
  });

  test("installs once when started twice at the same time", async () => {
    const results = await Promise.all([finished(start("exit.mjs", "1")), finished(start("exit.mjs", "2"))]);
    expect(results.map(({ code, stdout }) => ({ code, stdout }))).toEqual([
      { code: 7, stdout: '["1"]\n' },
      { code: 7, stdout: '["2"]\n' },
    ]);
    expect(await npmCalls()).toBe(1);
  });

  test("starts although an install before it was killed", async () => {
    const killed = start("exit.mjs");
    await once(killed.stderr as NonNullable<typeof killed.stderr>, "data");
    killed.kill("SIGKILL");
    await once(killed, "exit");
    expect((await finished(start("exit.mjs"))).code).toBe(7);
  });

  test.each(["SIGINT", "SIGTERM"] as const)("passes %s on and leaves no child behind", async (signal) => {
    await writeFile(
      join(root, "wait.mjs"),
      `process.on("${signal}", () => { process.exitCode = 5; clearInterval(timer); }); const timer = setInterval(() => {}, 1e6); console.log(process.pid);`,
    );
    const child = start("wait.mjs");
    const [data] = await once(child.stdout as NonNullable<typeof child.stdout>, "data");
    const pid = Number(String(data));
    child.kill(signal);
    const [code] = await once(child, "exit");
    expect(code).toBe(5);
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });

  test("answers a child that a signal ended as a shell would", async () => {
    await writeFile(join(root, "die.mjs"), 'process.kill(process.pid, "SIGKILL"); setInterval(() => {}, 1e6);');
    expect((await finished(start("die.mjs"))).code).toBe(137);
  });

  test("runs a command of the project with --bin, and puts the project's commands first on the path", async () => {
    await finished(start("exit.mjs"));
    await writeFile(join(root, "node_modules/.bin/tool"), "console.log(process.env.PATH.split(':')[0]);");
    const result = await finished(start("--bin", "tool"));
    expect(result).toEqual({ code: 0, stdout: `${join(root, "node_modules/.bin")}\n`, stderr: "" });
  });

  test("under npm, what it runs is ended when the shell between npm and it is killed", async () => {
    await writeFile(
      join(root, "stay.mjs"),
      "process.on('SIGTERM', () => { console.log('ended'); process.exit(0); }); setInterval(() => {}, 1000); console.log('up');",
    );
    const { npm_execpath: _npm, ...env } = process.env;
    const shell = spawn("sh", ["-c", `"${process.execPath}" src/local/bootstrap.mjs stay.mjs; true`], {
      cwd: root,
      env: { ...env, PATH: `${join(root, "fake")}:${process.env.PATH}`, npm_lifecycle_event: "start" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    let out = "";
    const closed = once(shell.stdout, "close");
    await new Promise<void>((resolve) => {
      shell.stdout.on("data", (data: Buffer) => {
        out += data.toString();
        if (out.includes("up")) resolve();
      });
    });
    shell.kill("SIGKILL");
    await closed;
    expect(out).toBe("up\nended\n");
  });
});
