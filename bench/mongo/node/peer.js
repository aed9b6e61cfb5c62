// node peer.js PEER settings | call URL | work URL SLOTS REPORTS
// `call` reads one JSON object per line and answers with one: the seconds that its act took.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [name, verb, url, slots, reports] = process.argv.slice(2);
const peer = await import(`./${name}.js`);
const seconds = () => Number(process.hrtime.bigint()) / 1e9; // the monotonic clock, which all processes of the machine share

const acts = {
  async enqueue({ count, callers, task = "noop" }, queue) {
    let next = 0;
    const call = async () => {
      while (next < count) await queue.enqueue(task, { n: next++ });
    };
    await Promise.all(Array.from({ length: callers }, call));
  },
  ping: (_, queue) => queue.enqueue("ping", { sent: seconds() }),
};

if (verb === "settings") {
  console.log(JSON.stringify(peer.settings(100)));
} else if (verb === "call") {
  const queue = await peer.open(url, 100);
  console.log(JSON.stringify({ ready: true }));
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const began = seconds();
    await acts[order.act](order, queue);
    console.log(JSON.stringify({ seconds: seconds() - began }));
  }
  process.exit(0);
} else {
  const queue = await peer.open(url, Number(slots), { changes: process.env.BENCH_CHANGES === "1" });
  await queue.work({
    noop: async () => {},
    ping: async ({ sent }) => appendFileSync(reports, `${seconds() - sent}\n`),
  });
  process.on("SIGTERM", async () => {
    await queue.stop();
    process.exit(0);
  });
}
