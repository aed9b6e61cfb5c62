import { Logger, makeWorkerUtils, run as runWorker } from "graphile-worker";
import { handlers, run } from "./protocol.js";

const logger = new Logger(() => (level, message) => level === "error" && console.error(message)); // as Holdfast: warnings and errors
const best = { concurrentJobs: 24, maxPoolSize: 10, completeJobBatchDelay: 0, failJobBatchDelay: 0, localQueue: { size: 500 } };

await run({
  async open({ url }) {
    const utils = await makeWorkerUtils({ connectionString: url, logger });
    await utils.migrate();
    return {
      one: (task, payload) => utils.addJob(task, payload),
      many: (task, payloads) => utils.addJobs(payloads.map((each) => ({ identifier: task, payload: each }))),
    };
  },
  async work({ url, setting }) {
    const preset = setting === "best" ? { worker: best } : {};
    await runWorker({ connectionString: url, logger, preset, taskList: handlers });
  },
});
