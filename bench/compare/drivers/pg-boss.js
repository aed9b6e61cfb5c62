import { PgBoss } from "pg-boss";
import { handlers, run } from "./protocol.js";

const best = { batchSize: 1000, burstWhenBatchFull: true };

async function start({ url, setting }) {
  const boss = new PgBoss({ connectionString: url, useListenNotify: setting === "best" });
  boss.on("error", (error) => console.error(String(error)));
  await boss.start();
  for (const task of Object.keys(handlers)) await boss.createQueue(task, setting === "best" ? { notify: true } : {});
  return boss;
}

await run({
  async open(order) {
    const boss = await start(order);
    return {
      one: (task, payload) => boss.send(task, payload),
      many: (task, payloads) => boss.insert(task, payloads.map((data) => ({ data }))),
    };
  },
  async work(order) {
    const boss = await start(order);
    for (const [task, handler] of Object.entries(handlers)) {
      await boss.work(task, order.setting === "best" ? best : {}, async (jobs) => {
        for (const { data } of jobs) await handler(data);
      });
    }
  },
});
