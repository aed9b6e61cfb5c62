// Agenda: a poller that locks one job with each command.
import { MongoBackend, MongoChangeStreamNotificationChannel } from "@agendajs/mongo-backend";
import { Agenda } from "agenda";
import { MongoClient } from "mongodb";

export const settings = (slots) => ({
  processEvery: 100,
  maxConcurrency: slots,
  defaultConcurrency: slots,
  defaultLockLimit: slots,
});

export async function open(url, slots, { lockLifetime, changes } = {}) {
  const client = await MongoClient.connect(url, { writeConcern: { w: "majority", journal: true } });
  const channel = changes ? { notificationChannel: new MongoChangeStreamNotificationChannel({ db: client.db() }) } : {};
  const lifetime = lockLifetime ? { defaultLockLifetime: lockLifetime } : {};
  const agenda = new Agenda({
    backend: new MongoBackend({ mongo: client.db() }),
    ...settings(slots),
    ...channel,
    ...lifetime,
  });
  await agenda.ready;
  return {
    enqueue: (task, data) => agenda.now(task, data),
    work: async (handlers) => {
      for (const [task, handler] of Object.entries(handlers)) agenda.define(task, (job) => handler(job.attrs.data));
      agenda.on("error", (error) => console.error(String(error)));
      await agenda.start();
    },
    stop: async () => {
      await agenda.stop();
      await client.close();
    },
  };
}
