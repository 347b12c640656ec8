// Makes the one command work on a fresh clone: installs what the lock file says if it is not there, then runs the given script
// with the Node that the project pins. Plain JavaScript without dependencies, because it runs before there are any, on the
// system's Node (20 or later).
//
//   node src/local/bootstrap.mjs src/local/main.ts --json
//   node src/local/bootstrap.mjs --bin vitest run

import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const modules = join(root, "node_modules");
const bin = join(modules, ".bin");
const pinnedNode = join(bin, process.platform === "win32" ? "node.cmd" : "node");

/** Says which lock file, on which platform, was last installed to the end. */
const stampPath = join(modules, ".hango-installed");

/** A lock nobody has signed is given this long before it counts as left behind. */
const UNSIGNED_LOCK_MS = 10_000;
const LOCK_POLL_MS = 200;

const say = (line) => process.stderr.write(`hango: ${line}\n`);

const readJson = (path) => {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
};

const allows = (list, value) =>
  list === undefined ||
  (!list.includes(`!${value}`) && (list.every((entry) => entry.startsWith("!")) || list.includes(value)));

let libc;
const systemLibc = () => {
  if (process.platform !== "linux") return undefined;
  libc ??= process.report.getReport().header.glibcVersionRuntime === undefined ? "musl" : "glibc";
  return libc;
};

/** Whether npm would install this package here. */
const isForHere = (entry) =>
  allows(entry.os, process.platform) &&
  allows(entry.cpu, process.arch) &&
  (entry.libc === undefined || allows(entry.libc, systemLibc()));

const stampOf = (lockText) =>
  createHash("sha256").update(`${process.platform} ${process.arch} ${lockText}`).digest("hex");

/** Why an install is needed, or undefined when everything is there. */
const whatDiffers = () => {
  const lockText = readFileSync(join(root, "package-lock.json"), "utf8");
  const wanted = JSON.parse(lockText).packages;
  const found = readJson(join(modules, ".package-lock.json"))?.packages;
  if (found === undefined) return "nothing is installed yet";
  let stamp = "";
  try {
    stamp = readFileSync(stampPath, "utf8");
  } catch {}
  // npm may leave out an optional package that fails to install; asking again at every start would not help.
  const complete = stamp === stampOf(lockText);
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === "" || entry.link === true || !isForHere(entry)) continue;
    const name = path.replace(/^.*node_modules\//, "");
    const present = found[path];
    if (present === undefined || !existsSync(join(root, path, "package.json"))) {
      const optional = entry.optional === true || entry.devOptional === true;
      const native = entry.os !== undefined || entry.cpu !== undefined;
      if (optional && (complete || !native)) continue;
      return `${name} is missing`;
    }
    if (present.version !== entry.version) return `${name} is ${present.version}, not ${entry.version}`;
  }
  const version = spawnSync(pinnedNode, ["--version"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  }).stdout?.trim();
  if (version !== `v${wanted["node_modules/node"]?.version}`) return "the pinned Node does not run";
  return undefined;
};

const lockPath = join(
  tmpdir(),
  `hango-install-${process.getuid?.() ?? 0}-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`,
);

/** Whether the holder of the lock is gone. */
const isLeftBehind = () => {
  try {
    const pid = Number(readFileSync(join(lockPath, "pid"), "utf8"));
    if (pid > 0) {
      process.kill(pid, 0);
      return false;
    }
  } catch (error) {
    if (error.code === "ESRCH") return true;
    if (error.code === "EPERM") return false;
  }
  try {
    return Date.now() - statSync(lockPath).mtimeMs > UNSIGNED_LOCK_MS;
  } catch {
    return false;
  }
};

const tryLock = () => {
  try {
    mkdirSync(lockPath);
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    if (isLeftBehind()) rmSync(lockPath, { recursive: true, force: true });
    return false;
  }
  writeFileSync(join(lockPath, "pid"), String(process.pid));
  return true;
};

const unlock = () => rmSync(lockPath, { recursive: true, force: true });

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** How often it is looked whether the parent is still there. */
const PARENT_POLL_MS = 500;

/** Runs a child to its end, passing signals on, so that it is never left behind. Answers its exit code as a shell would. */
const run = (command, args, options) =>
  new Promise((done) => {
    const child = spawn(command, args, options);
    const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
    const forward = (signal) => child.kill(signal);
    // npm passes signals on to a shell between us, which dies without passing them further: then nobody is left who could stop us.
    const parent = process.ppid;
    const orphaned = () => process.ppid !== parent && forward("SIGTERM");
    const watch = process.env.npm_lifecycle_event === undefined ? undefined : setInterval(orphaned, PARENT_POLL_MS);
    const finish = (code) => {
      clearInterval(watch);
      for (const signal of signals) process.off(signal, forward);
      done(code);
    };
    for (const signal of signals) process.on(signal, forward);
    child.on("error", (error) => {
      say(`could not run ${command}: ${error.message}`);
      finish(127);
    });
    child.on("exit", (code, signal) => finish(code ?? 128 + (constants.signals[signal] ?? 0)));
  });

const npmCi = () => {
  // A development dependency is what runs everything here, so NODE_ENV=production must not leave it out.
  const args = [
    "ci",
    "--include=dev",
    "--include=optional",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--loglevel=error",
  ];
  const options = { cwd: root, stdio: ["ignore", 2, 2], env: { ...process.env, NODE_ENV: "development" } };
  const cli = process.env.npm_execpath;
  if (cli !== undefined && /npm-cli\.c?js$/.test(cli)) return run(process.execPath, [cli, ...args], options);
  return run("npm", args, { ...options, shell: process.platform === "win32" });
};

/** @returns 0 when everything is there, an exit code otherwise */
const install = async () => {
  if (!existsSync(lockPath) && whatDiffers() === undefined) return 0;
  let waiting = false;
  while (!tryLock()) {
    if (!waiting) say("waiting for another install to finish");
    waiting = true;
    await pause(LOCK_POLL_MS);
  }
  try {
    const difference = whatDiffers();
    if (difference === undefined) return 0;
    say(`installing what package-lock.json lists (${difference})`);
    const code = await npmCi();
    if (code !== 0) {
      say(
        `npm ci failed with exit code ${code}. Its own message is above; the usual reason is that the package registry cannot be reached.`,
      );
      return code;
    }
    writeFileSync(stampPath, stampOf(readFileSync(join(root, "package-lock.json"), "utf8")));
    const left = whatDiffers();
    if (left === undefined) return 0;
    say(
      `npm ci ended well, but ${left}. If install scripts are switched off (npm config ignore-scripts), switch them on for this project.`,
    );
    return 1;
  } finally {
    unlock();
  }
};

const main = async () => {
  if (Number(process.versions.node.split(".")[0]) < 20) {
    say(`needs Node 20 or later to start, this is ${process.version}`);
    return 1;
  }
  const [first, ...rest] = process.argv.slice(2);
  if (first === undefined) {
    say("usage: bootstrap.mjs <script> [arguments] or bootstrap.mjs --bin <command> [arguments]");
    return 2;
  }
  const installed = await install();
  if (installed !== 0) return installed;
  const args = first === "--bin" ? [join(bin, rest[0] ?? ""), ...rest.slice(1)] : [resolve(root, first), ...rest];
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH ?? ""}` };
  return run(pinnedNode, args, { stdio: "inherit", env, cwd: root, shell: process.platform === "win32" });
};

process.exitCode = await main();
