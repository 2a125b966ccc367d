// Adds jobs to BullMQ, by its own client.

import { Queue } from "bullmq";
import { Redis } from "ioredis";

import { produce } from "../producing.mjs";

const connection = new Redis(process.env.RIVAL_URL, { maxRetriesPerRequest: null });
const queue = new Queue("calls", { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();

/** From now on, in whole milliseconds: with both given, the job is due at that instant. */
const options = (due) => {
  const timestamp = Date.now();
  return { timestamp, delay: due.getTime() - timestamp };
};

await produce({
  add: ({ due, data }) => queue.add("call", data, options(due)),
  addMany: (jobs) =>
    queue.addBulk(jobs.map(({ due, data }) => ({ name: "call", data, opts: options(due) }))),
  stored: async () =>
    Object.values(await queue.getJobCounts()).reduce((sum, count) => sum + count, 0),
  close: async () => {
    await queue.close();
    connection.disconnect();
  },
});
