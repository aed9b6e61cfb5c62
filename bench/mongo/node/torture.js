// node torture.js PEER enqueue URL COUNT | work URL SLOTS LOCK_LIFETIME
// Handlers write the journal of bench/peers_torture/journal.py.
import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

const [name, verb, url, number, lockLifetime] = process.argv.slice(2);
const { PEERS_JOURNAL, PEERS_WORKER, PEERS_STEPS, PEERS_STEP } = process.env;
const peer = await import(`./${name}.js`);
const GAP = 300; // milliseconds between two jobs: of a heap, the worker that looks first would take everything

const write = (event, job, run) => {
  const at = Number(process.hrtime.bigint()) / 1e9;
  appendFileSync(PEERS_JOURNAL, `${at.toFixed(6)} ${event} ${job} ${run} ${PEERS_WORKER} ${process.pid}\n`);
};

const torture = async ({ job }) => {
  const run = randomBytes(4).toString("hex");
  write("start", job, run);
  for (let n = 0; n < Number(PEERS_STEPS); n++) {
    await pause(Number(PEERS_STEP) * 1000);
    write("step", job, run);
  }
  write("done", job, run);
};

if (verb === "enqueue") {
  const queue = await peer.open(url, 10);
  for (let job = 1; job <= Number(number); job++) {
    await queue.enqueue("torture", { job });
    await pause(GAP);
  }
  await queue.stop();
} else {
  const queue = await peer.open(url, Number(number), { lockLifetime: Number(lockLifetime) || undefined });
  await queue.work({ torture });
  write("up", 0, "-");
}
