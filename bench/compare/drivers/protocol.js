// What line_protocol.py is for Python: node DRIVER.js call ORDER | node DRIVER.js work ORDER
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const BULK = 1000;
const seconds = () => Number(process.hrtime.bigint()) / 1e9; // the monotonic clock, which all processes of the machine share
const answer = (bench) => console.log(JSON.stringify({ bench }));

export const handlers = {
  noop: async () => {},
  ping: async ({ sent }) => appendFileSync(process.env.BENCH_REPORTS, `${seconds() - sent}\n`),
};

const payload = (n, size) => (size ? { n, pad: "x".repeat(size) } : { n });

const acts = {
  async enqueue(queue, { count, callers, size }) {
    let next = 0;
    const call = async () => {
      while (next < count) await queue.one("noop", payload(next++, size));
    };
    await Promise.all(Array.from({ length: callers }, call));
  },
  async bulk(queue, { count, size }) {
    for (let start = 0; start < count; start += BULK) {
      const some = Array.from({ length: Math.min(BULK, count - start) }, (_, n) => payload(start + n, size));
      await queue.many("noop", some);
    }
  },
  async ping(queue, { count, rate }) {
    const calls = [];
    let due = seconds();
    for (let n = 0; n < count; n++) {
      due += (0.5 + ((n * 0.618) % 1)) / rate;
      const wait = due - seconds();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait * 1000));
      calls.push(queue.one("ping", { sent: seconds() }));
    }
    await Promise.all(calls);
  },
};

export async function run(driver) {
  const order = JSON.parse(process.argv[3]);
  if (process.argv[2] === "work") return driver.work(order);
  const queue = await driver.open(order);
  answer(0);
  for await (const line of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const began = seconds();
    await acts[asked.act](queue, asked);
    answer(seconds() - began);
  }
  process.exit(0);
}
