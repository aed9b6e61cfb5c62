// mongodb-queue has no worker: this is the loop around get and ack that its documentation shows, once for each slot.
import { createRequire } from "node:module";
import { promisify } from "node:util";

const require = createRequire(import.meta.url);
const { MongoClient } = require("mongodb3"); // it uses what later drivers do not have
const createQueue = require("mongodb-queue");
const PAUSE = 100; // milliseconds, as long as the others pause between two polls

export const settings = () => ({ slots: 10, pause: PAUSE });

export async function open(url, _slots, { lockLifetime } = {}) {
  const options = { writeConcern: { w: "majority", j: true }, useUnifiedTopology: true, useNewUrlParser: true, poolSize: 20 };
  const client = await MongoClient.connect(url, options);
  const visibility = lockLifetime ? { visibility: lockLifetime / 1000 } : {};
  const queue = createQueue(client.db(), "queue", visibility);
  await promisify(queue.createIndexes.bind(queue))();
  const [add, get, ack] = ["add", "get", "ack"].map((verb) => promisify(queue[verb].bind(queue)));
  let works = true;
  const slot = async (handlers) => {
    while (works) {
      const message = await get();
      if (message) {
        await handlers[message.payload.task](message.payload.data);
        await ack(message.ack).catch((error) => console.error(String(error)));
      } else await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  };
  return {
    enqueue: (task, data) => add({ task, data }),
    work: async (handlers) => {
      for (let n = 0; n < settings().slots; n++) slot(handlers).catch((error) => console.error(String(error)));
    },
    stop: async () => {
      works = false;
      await client.close();
    },
  };
}
