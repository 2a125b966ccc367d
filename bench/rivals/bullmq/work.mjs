// Works off the jobs of BullMQ, many at once in one worker, as its guide says for jobs that wait.

import { Worker } from "bullmq";
import { Redis } from "ioredis";

import { caller } from "../calling.mjs";

const AT_ONCE = 200;
const call = caller(AT_ONCE);

const worker = new Worker(
  "calls",
  (job) =>
    call({
      id: job.id,
      attempt: job.attemptsStarted,
      due: new Date(job.timestamp + job.opts.delay),
      url: job.data.url,
      payload: job.data.payload,
    }),
  {
    connection: new Redis(process.env.RIVAL_URL, { maxRetriesPerRequest: null }),
    concurrency: AT_ONCE,
  },
);
worker.on("error", (error) => console.error(error));
worker.on("failed", (_job, error) => console.error(error));
await worker.waitUntilReady();
console.log("ready");
